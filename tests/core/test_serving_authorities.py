"""The authorities of the operator's own endpoints: which signs, which are trusted, and when a new one is made."""

import pytest
from msgspec import structs

from syncline.core.serving_authorities import (
    MOST,
    CertificateAuthority,
    Lifetimes,
    bundle_of,
    merge_authorities,
    plan_authorities,
    signing_authority,
)

TIMES = Lifetimes(authority=1000, rotation=500, overlap=100, certificate=60)


def made(name: str, created: float, expires: float | None = None) -> CertificateAuthority:
    return CertificateAuthority(
        name, f"key of {name}", created, created + TIMES.authority if expires is None else expires
    )


A, B, C = made("a", 0), made("b", 500), made("c", 520)


def named(authorities: tuple[CertificateAuthority, ...]) -> str:
    return "".join(one.certificate for one in authorities)


@pytest.mark.parametrize(
    ("found", "now", "kept", "due", "signs"),
    [
        ((), 0, "", True, ""),
        ((A,), 0, "a", False, "a"),  # the first authority signs at once, because nobody trusts another
        ((A,), 499, "a", False, "a"),
        ((A,), 500, "a", True, "a"),
        ((A, B), 500, "ab", False, "a"),
        ((A, B), 599, "ab", False, "a"),
        ((A, B), 600, "ab", False, "b"),
        ((A, B), 699, "ab", False, "b"),
        ((A, B), 700, "b", False, "b"),
        ((B, A), 600, "ab", False, "b"),  # the order of the list means nothing
        ((A, A, B), 550, "ab", False, "a"),
        ((A, B), 1000, "b", True, "b"),
        ((A,), 1000, "", True, ""),  # an authority that has expired is not trusted
        ((A, B, C), 610, "abc", False, "b"),
        ((A, B, C), 620, "abc", False, "c"),
        ((A, B, C), 700, "bc", False, "c"),
        ((A, B, C), 720, "c", False, "c"),
        ((made("short", 0, 150),), 0, "short", True, "short"),  # it would expire before a successor signs
        ((made("short", 0, 150), made("new", 100)), 149, "shortnew", False, "short"),
        ((made("short", 0, 150), made("new", 100)), 150, "new", False, "new"),
        ((made("future", 900),), 0, "future", False, "future"),  # a clock was wrong: it is all there is
        ((A, made("future", 900)), 300, "afuture", False, "a"),
    ],
)
def test_an_authority_is_trusted_before_it_signs_and_after_it(
    found: tuple[CertificateAuthority, ...], now: float, kept: str, due: bool, signs: str
) -> None:
    plan = plan_authorities(found, now, TIMES)
    signer = signing_authority(plan.kept, now, TIMES)
    assert (named(plan.kept), plan.due, signer.certificate if signer else "") == (kept, due, signs)


@pytest.mark.parametrize(
    ("found", "now", "wait"),
    [
        ((A,), 0, 100),
        ((A,), 100, 100),
        ((A,), 200, 300),
        ((A,), 500, 0),  # a new one is due
        ((A, B), 500, 100),
        ((A, B), 650, 50),
        ((B,), 700, 300),
    ],
)
def test_the_next_decision_is_waited_for(found: tuple[CertificateAuthority, ...], now: float, wait: float) -> None:
    assert plan_authorities(found, now, TIMES).wait == wait


def test_a_life_with_rotations_always_has_a_signer_that_was_trusted_for_the_overlap() -> None:
    held: tuple[CertificateAuthority, ...] = ()
    trusted_since: dict[str, float] = {}
    signers = []
    for now in range(0, 4000, 7):
        plan = plan_authorities(held, now, TIMES, requested=now % 700 == 0 and now > 0)
        held = (*plan.kept, made(f"at {now}", now)) if plan.due else plan.kept
        for one in held:
            trusted_since.setdefault(one.certificate, now)
        signer = signing_authority(held, now, TIMES)
        assert signer is not None
        assert signer in held
        if signer.certificate != "at 0":
            assert now - trusted_since[signer.certificate] >= TIMES.overlap
        assert len(held) <= MOST
        signers.append(signer.certificate)
    assert len(set(signers)) >= 6


class TestRequests:
    def test_a_new_authority_can_be_asked_for(self) -> None:
        assert not plan_authorities([A], 250, TIMES).due
        assert plan_authorities([A], 250, TIMES, requested=True).due

    def test_requests_do_not_make_the_list_longer_and_longer(self) -> None:
        many = [made(f"m{number}", number) for number in range(MOST)]
        assert not plan_authorities(many, 50, TIMES, requested=True).due


class TestMerging:
    def test_the_list_that_was_found_counts(self) -> None:
        assert merge_authorities([A, B], [A], 510, TIMES) == (A, B)
        assert merge_authorities([B, A], [], 510, TIMES) == (A, B)

    def test_the_authority_that_signs_here_stays_when_somebody_removes_it(self) -> None:
        assert merge_authorities([B], [A, B], 550, TIMES) == (A, B)

    def test_a_predecessor_that_was_dropped_does_not_come_back(self) -> None:
        assert merge_authorities([B], [A, B], 650, TIMES) == (B,)

    def test_an_authority_that_nobody_knows_yet_begins_its_overlap_when_it_is_found(self) -> None:
        foreign = made("foreign", 300)
        merged = merge_authorities([foreign], [A], 450, TIMES)
        assert merged == (A, structs.replace(foreign, created=450))
        signer = signing_authority(merged, 540, TIMES)
        assert signer == A
        signer = signing_authority(merged, 550, TIMES)
        assert signer is not None
        assert signer.certificate == "foreign"

    def test_a_replica_that_starts_takes_the_list_as_it_is(self) -> None:
        assert merge_authorities([A, B], [], 650, TIMES) == (A, B)

    def test_an_expired_signer_is_not_put_back(self) -> None:
        assert merge_authorities([B], [A], 1001, TIMES) == (structs.replace(B, created=1001),)


def test_times_with_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="would expire"):
        Lifetimes(authority=100, rotation=60, overlap=30)
    assert Lifetimes().rotation + 2 * Lifetimes().overlap < Lifetimes().authority


def test_the_bundle_has_every_certificate_on_lines_of_its_own() -> None:
    assert bundle_of([A, B]) == "a\nb\n"
