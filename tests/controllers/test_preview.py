"""Preview: what a reconcile would do, told in one line for each object."""

from typing import Any

import pytest

from syncline.controllers.errors import SyncError
from syncline.controllers.targets.preview import Preview, first_problem, merge
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action, Verb

SETTINGS = Target("team", "settings")


def action(verb: Verb, state: Any = "Synced", target: Target = SETTINGS) -> Action:
    return Action(verb=verb, target=target, state=state, reason="Any", message="why")


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (action(Verb.CREATE), "create ConfigMap team/settings"),
        (
            action(Verb.DELETE, target=Target("", "web", "PriorityClass.scheduling.k8s.io", "edge")),
            "delete edge: PriorityClass.scheduling.k8s.io web",
        ),
        (action(Verb.LEAVE, "Conflict"), "leave ConfigMap team/settings: why"),
        (action(Verb.LEAVE, "Failed"), "leave ConfigMap team/settings: why"),
    ],
)
def test_each_change_and_each_conflict_is_a_line(one: Action, line: str) -> None:
    assert Preview(actions=(one,)).lines() == [line]


def test_what_is_as_it_should_be_is_not_told() -> None:
    preview = Preview(actions=(action(Verb.LEAVE),))
    assert (preview.lines(), preview.changes) == ([], 0)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("Pending", "wait with ConfigMap team/settings: why"),
        ("Skipped", "skip ConfigMap team/settings: why"),
        ("Failed", "cannot write ConfigMap team/settings: why"),
    ],
)
def test_what_is_not_written_is_told_with_its_cause(state: Any, line: str) -> None:
    skipped = Outcome(target=SETTINGS, state=state, reason="Any", message="why")
    assert Preview(skipped=(skipped,)).lines() == [line]


def test_the_previews_of_units_are_one() -> None:
    first, second = SyncError("First", "1"), SyncError("Second", "2")
    merged = merge(
        [
            Preview(actions=(action(Verb.CREATE),)),
            Preview(actions=(action(Verb.DELETE),), problem=first),
            Preview(problem=second),
        ]
    )
    assert [one.verb for one in merged.actions] == [Verb.CREATE, Verb.DELETE]
    assert (merged.changes, merged.problem) == (2, first)
    assert first_problem(None, second, first) is second
