"""The profiles of rights, as data."""

from itertools import pairwise

import pytest

from syncline.core.profiles import MEANINGS, PROFILES, READ, SHARES, WRITE, Share, is_at_least, known, profile_of


@pytest.mark.parametrize("share", SHARES, ids=lambda share: share.role)
def test_each_profile_may_do_all_that_the_one_before_it_may(share: Share) -> None:
    verbs = [set(share.verbs_in(profile)) for profile in PROFILES]
    assert all(less <= more for less, more in pairwise(verbs))


def test_none_writes_nothing_and_admin_writes_everything() -> None:
    assert all(set(share.verbs_in("none")) <= set(READ) for share in SHARES)
    assert all("create" in share.verbs_in("admin") for share in SHARES)
    assert SHARES[-1].verbs_in("workloads") == ()
    assert SHARES[-1].verbs_in("admin") == WRITE


def test_no_profile_may_escalate_bind_or_impersonate_by_a_share() -> None:
    assert not {"*", "escalate", "bind", "impersonate"} & {verb for share in SHARES for verb in share.verbs}


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("configmaps", "config"),
        ("secrets", "config"),
        ("deployments.apps", "workloads"),
        ("ingresses.networking.k8s.io", "workloads"),
        ("services", "workloads"),
        ("services.serving.knative.dev", None),
        ("limitranges", None),
        ("widgets.example.com", None),
    ],
)
def test_a_resource_belongs_to_the_least_profile_that_writes_it(resource: str, profile: str | None) -> None:
    assert profile_of(resource) == profile


def test_profiles_are_known_by_name() -> None:
    assert [known(name) for name in (*PROFILES, "", "root")] == [*PROFILES, None, None]
    assert set(MEANINGS) == set(PROFILES)
    assert is_at_least("admin", "none")
    assert not is_at_least("none", "config")
