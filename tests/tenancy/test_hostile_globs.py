"""Globs that take long to compare, in a sync that anybody with `edit` in a namespace may write."""

import pytest
from tests.manifestsync.world import Manifests
from tests.tenancy.tenants import Tenant

KEYS, GLOBS = 3800, 100


@pytest.mark.own_rights
def test_globs_of_a_tenant_over_many_keys_delay_nobody_else(world: Manifests) -> None:
    """Each comparison takes as long as it can: a long run of one letter, which nearly fits at every place."""
    mallory = Tenant(world, world.namespace("mallory"))
    mallory.create("v1", "ConfigMap", "configmaps", "large", data={"k" * 235 + f"{key:05}": "" for key in range(KEYS)})
    globs = ["*" + "k" * (100 + number) + "z*" for number in range(GLOBS)]
    here = {"sourceNamespace": mallory.namespace, "configMapName": "large", "destinationNamespace": mallory.namespace}
    keys = {"include": [*globs[1:], "*"], "exclude": globs}
    slow = mallory.sync("ConfigMapSync", "slow", destinationName="copy", keys=keys, **here)
    slow.becomes_held()
    world.source()
    target = world.namespace("target")
    world.sync("victim", destinationNamespace=target).becomes("Synced", synced=1)
    slow.becomes("Synced", synced=1)
    assert len(world.config_map(mallory.namespace, "copy").data) == KEYS
