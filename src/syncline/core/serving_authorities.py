"""The certificate authorities of the operator's own endpoints: signing, trust and rotation.

A new authority is trusted at once and signs only after an overlap, so that all clients know it by then. Its predecessor
stays trusted for another overlap. Pure: the clock is an argument, times are seconds since 1970.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from msgspec import Struct, structs

_DAY = 24 * 3600.0

MOST = 6
"""The maximum number of authorities. A request for one more is ignored."""


class Lifetimes(Struct, frozen=True, kw_only=True):
    """The times of authorities and of the certificates that they sign, in seconds."""

    authority: float = 730 * _DAY
    """The time until an authority expires."""
    rotation: float = 365 * _DAY
    """The time until an authority gets a successor."""
    overlap: float = 30 * _DAY
    """The time for which a successor is trusted before it signs, and its predecessor after that."""
    certificate: float = 30 * _DAY
    """The time until a serving certificate expires. It is renewed after a third of it."""

    def __post_init__(self) -> None:
        """Refuse times with which an authority could expire before its successor signs."""
        if self.rotation + 2 * self.overlap > self.authority:
            raise ValueError("an authority would expire before its successor has signed for an overlap")


class CertificateAuthority(Struct, frozen=True):
    """One authority. The certificate and the key are PEM."""

    certificate: str
    key: str
    created: float
    expires: float

    @property
    def id(self) -> str:
        """Its id: a digest of its certificate."""
        return sha256(self.certificate.encode()).hexdigest()[:16]


class AuthorityPlan(Struct, frozen=True):
    """The next steps for a set of authorities."""

    kept: tuple[CertificateAuthority, ...]
    """The trusted authorities, the oldest first."""
    due: bool
    """Whether a new authority is due."""
    wait: float
    """The seconds until the next decision."""


def plan_authorities(
    found: Iterable[CertificateAuthority], now: float, lifetimes: Lifetimes, *, requested: bool = False
) -> AuthorityPlan:
    """Decide which authorities stay, and whether a new one is made. `requested`: somebody asks for a new one."""
    valid = sorted({one.id: one for one in found if one.expires > now}.values(), key=_age)
    ready = [one for one in valid if one.created + 2 * lifetimes.overlap <= now]
    kept = tuple(one for one in valid if not ready or _age(one) >= _age(ready[-1]))
    newest = kept[-1] if kept else None
    due = (
        newest is None
        or newest.created + lifetimes.rotation <= now
        or newest.expires <= now + 2 * lifetimes.overlap
        or (requested and len(kept) < MOST)
    )
    moments = [
        moment
        for one in kept
        for moment in (
            one.created + lifetimes.overlap,
            one.created + 2 * lifetimes.overlap,
            one.created + lifetimes.rotation,
            one.expires - 2 * lifetimes.overlap,
            one.expires,
        )
    ]
    later = [moment - now for moment in moments if moment > now]
    return AuthorityPlan(kept, due, 0.0 if due else min(later, default=lifetimes.overlap))


def signing_authority(
    trusted: Sequence[CertificateAuthority], now: float, lifetimes: Lifetimes
) -> CertificateAuthority | None:
    """Return the authority that signs: the newest that all clients know by now. None if all have expired.

    If no authority is known for long enough, the oldest signs.
    """
    valid = sorted((one for one in trusted if one.expires > now), key=_age)
    ready = [one for one in valid if one.created + lifetimes.overlap <= now]
    return ready[-1] if ready else next(iter(valid), None)


def merge_authorities(
    found: Iterable[CertificateAuthority], held: Sequence[CertificateAuthority], now: float, lifetimes: Lifetimes
) -> tuple[CertificateAuthority, ...]:
    """Return the authorities that were found, corrected by those that this replica has trusted so far.

    The authority that signs here stays, even if somebody has removed it: clients may know no other. A new authority
    that would sign at once begins its overlap now, because clients cannot know it yet.
    """
    known = {one.id for one in held}
    listed = {
        one.id: structs.replace(one, created=now)
        if known and one.id not in known and one.created + lifetimes.overlap <= now
        else one
        for one in found
    }
    signer = signing_authority(held, now, lifetimes)
    if signer is not None:
        listed.setdefault(signer.id, signer)
    return tuple(sorted(listed.values(), key=_age))


def bundle_of(authorities: Iterable[CertificateAuthority]) -> str:
    """Return the certificates of authorities as one PEM text."""
    return "".join(f"{one.certificate.strip()}\n" for one in authorities)


def _age(one: CertificateAuthority) -> tuple[float, str]:
    return one.created, one.id
