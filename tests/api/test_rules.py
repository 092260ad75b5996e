"""No rule without a spec that breaks it: the words a user gets are words that a test has seen."""

import pytest
from tests.api import (
    test_configmapsync,
    test_configsync,
    test_ignitionsync,
    test_manifestsync,
    test_synctarget,
    test_tenantpolicy,
    test_workspacesync_placement,
    test_workspacesync_resources,
    test_workspacesync_sides,
    test_workspacesync_transforms,
)
from tests.api.trial import messages

from syncline.api.crd import schema
from syncline.api.kinds import ALL_KINDS, Kind

PROVEN = tuple(
    words
    for module in (
        test_configmapsync,
        test_configsync,
        test_ignitionsync,
        test_manifestsync,
        test_synctarget,
        test_tenantpolicy,
        test_workspacesync_placement,
        test_workspacesync_resources,
        test_workspacesync_sides,
        test_workspacesync_transforms,
    )
    for _, _, words in module.RULES.values()
)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.kind)
def test_every_rule_has_a_bad_spec_that_proves_it(kind: Kind) -> None:
    assert [said for said in messages(schema(kind)) if not said.startswith(PROVEN)] == []
