"""A part of the suite, played where the operator writes nothing in its own name, and each sync names an account.

SYNCLINE_TEST_RIGHTS=none plays any part of it so: see CONTRIBUTING.md.
"""

from collections.abc import Iterator

import pytest
from tests.configmapsync.test_deletion import (
    test_a_deleted_source_takes_its_copies_along_and_brings_them_back,
    test_a_deleted_sync_takes_its_copies_along,
)
from tests.configmapsync.test_destinations import test_the_destinations_are_the_union_of_names_globs_and_labels
from tests.configmapsync.test_edits import (
    test_merge_keeps_edits_of_other_keys,
    test_source_wins_repairs_a_changed_copy_and_tells_who_had_changed_it,
)
from tests.configmapsync.test_twoway import test_edits_of_different_keys_at_the_same_time_both_survive
from tests.configsync.conftest import git_server
from tests.configsync.test_applying import (
    test_a_deleted_sync_takes_its_objects_along,
    test_once_applied_nothing_is_written,
    test_what_leaves_git_leaves_the_cluster,
)
from tests.configsync.test_prune import test_losing_much_at_once_waits_for_a_person
from tests.configsync.world import GitWorld
from tests.manifestsync.test_drift import (
    test_a_changed_field_is_repaired_and_the_event_names_the_field_and_who_changed_it,
)
from tests.manifestsync.test_immutable import test_a_service_with_a_port_of_its_own_is_made_anew
from tests.manifestsync.test_kinds import (
    test_a_deployment_is_copied_and_follows_its_source,
    test_a_secret_is_copied_with_its_type,
)

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

__all__ = [
    "git_server",
    "test_a_changed_field_is_repaired_and_the_event_names_the_field_and_who_changed_it",
    "test_a_deleted_source_takes_its_copies_along_and_brings_them_back",
    "test_a_deleted_sync_takes_its_copies_along",
    "test_a_deleted_sync_takes_its_objects_along",
    "test_a_deployment_is_copied_and_follows_its_source",
    "test_a_secret_is_copied_with_its_type",
    "test_a_service_with_a_port_of_its_own_is_made_anew",
    "test_edits_of_different_keys_at_the_same_time_both_survive",
    "test_losing_much_at_once_waits_for_a_person",
    "test_merge_keeps_edits_of_other_keys",
    "test_once_applied_nothing_is_written",
    "test_source_wins_repairs_a_changed_copy_and_tells_who_had_changed_it",
    "test_the_destinations_are_the_union_of_names_globs_and_labels",
    "test_what_leaves_git_leaves_the_cluster",
]


@pytest.fixture(scope="module")
def operator(installed_with_none: Sandbox) -> Iterator[OperatorProcess]:
    """An operator with this profile."""
    with OperatorProcess(installed_with_none.kubeconfig, "--as-installed", "--allow-loopback") as running:
        yield running


@pytest.fixture
def world(installed_with_none: Sandbox, operator: OperatorProcess, git_server: GitServer) -> Iterator[GitWorld]:
    """Namespaces and a repository of this test's own, whose syncs name an account."""
    world = GitWorld(installed_with_none, git_server, account="tests")
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]
    assert operator.events()[0]["rights"] == "none"
