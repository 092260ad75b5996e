"""`syncline rollback`, `promote`, `suspend`, `resume`, `reconcile` and `get` over ConfigSyncs and IgnitionSyncs.

The tests write the status themselves, in a cluster where no operator does.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
import structlog

from syncline import deploy
from syncline.api.common import API_VERSION, REQUESTED_AT
from syncline.api.kinds import CONFIG_SYNC, IGNITION_SYNC, Kind
from syncline.cli import main
from syncline.sandbox import Options, RequestError, Sandbox

Json = dict[str, Any]
Eventually = Callable[[Callable[[], bool]], None]

NOW = "2026-01-02T03:04:05Z"
OLD, NEW, OTHER = (f"4f7c1b1{letter * 33}" for letter in "abc")
"""Commits that begin alike."""
ENVIRONMENTS = [{"name": "dev", "namespace": "dev"}, {"name": "prod", "namespace": "prod", "revision": OLD}]
GIT = {"git": {"repo": "https://git.example.com/team/config.git"}}
PLANT: Json = {
    "git": {"repo": "https://git.example.com/plant.git", "ref": "main"},
    "gateway": {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}},
}
SPECS = {CONFIG_SYNC.kind: {"source": GIT}, IGNITION_SYNC.kind: PLANT}

_numbers = itertools.count()


class Stored:
    """A sync in the cluster."""

    def __init__(self, sandbox: Sandbox, kind: Kind = CONFIG_SYNC, **spec: Any) -> None:
        self.sandbox = sandbox
        self.kind = kind
        self.name = f"sync-{next(_numbers)}"
        folder = f"/apis/{API_VERSION}/namespaces/default/{kind.plural}"
        self.address = f"{folder}/{self.name}"
        self._identity = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": self.name}}
        self.sandbox.request("POST", folder, {**self._identity, "spec": {**SPECS[kind.kind], **spec}})

    def __str__(self) -> str:
        return f"{self.kind.kind} default/{self.name}"

    def read(self) -> Json:
        return self.sandbox.request("GET", self.address)

    @property
    def spec(self) -> Json:
        return dict(self.read()["spec"])

    def report(self, **status: Any) -> None:
        """Write the status as an operator would, for the spec as it is now."""
        generation = self.read()["metadata"]["generation"]
        body = {**self._identity, "status": {"observedGeneration": generation, **status}}
        self.sandbox.request("PATCH", f"{self.address}/status?fieldManager=operator&force=true", body)

    def answer(self, eventually: Eventually, *conditions: Json, **status: Any) -> None:
        """Wait for a request to carry out the sync, and answer it."""

        def requested() -> str:
            return str(self.read()["metadata"].get("annotations", {}).get(REQUESTED_AT, ""))

        eventually(lambda: requested() != "")
        self.report(lastHandledRequest=requested(), conditions=list(conditions), **status)


class Command:
    """Runs `syncline` in this process."""

    def __init__(self, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
        self._kubeconfig = str(sandbox.kubeconfig)
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        """Return what it says; unless all goes well, that is one line on stderr."""
        assert main([*words, "-n", "default", "--kubeconfig", self._kubeconfig]) == code
        told = self._capsys.readouterr()
        if code == 0:
            assert told.err == ""
            return told.out
        assert told.err.startswith("syncline: ")
        assert told.err.count("\n") == 1
        return told.err.removeprefix("syncline: ").strip()


@pytest.fixture(scope="module")
def quiet(eventually: Eventually) -> Iterator[Sandbox]:
    """A cluster that serves our kinds, and where nobody acts on them."""
    with Sandbox.create(Options()) as sandbox:
        for manifest in deploy.crds():
            path = deploy.resource(manifest).path(None, manifest["metadata"]["name"])
            sandbox.request("PATCH", f"{path}?fieldManager=tests", manifest)

        def served() -> bool:
            try:
                return bool(sandbox.request("GET", f"/apis/{API_VERSION}/{CONFIG_SYNC.plural}"))
            except RequestError:
                return False

        eventually(served)
        yield sandbox


@pytest.fixture
def store(quiet: Sandbox) -> Callable[..., Stored]:
    """Create a sync with some fields of the spec, a ConfigSync unless another kind is named."""
    return lambda kind=CONFIG_SYNC, **spec: Stored(quiet, kind, **spec)


@pytest.fixture
def syncline(quiet: Sandbox, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Run the command, and leave the logs of this process as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Command(quiet, capsys)
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


Store = Callable[..., Stored]


def condition(type_: str, status: str, reason: str, message: str = "") -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def change(revision: str, result: str = "Synced") -> Json:
    return {"time": NOW, "revision": revision, "result": result, "changes": "1 created"}


def track(name: str, ready: str = "True", **fields: Any) -> Json:
    return {"name": name, "ready": ready, "sourceRevision": NEW, **fields}


def test_a_rollback_is_to_the_previous_commit_unless_one_is_named_and_ends_when_it_is_cleared(
    store: Store, syncline: Command
) -> None:
    sync = store()
    sync.report(sourceRevision=NEW, history=[change(NEW), change(OLD)])
    assert (
        syncline("rollback", sync.name) == f"{sync} is rolled back to the previous commit; --clear ends the rollback\n"
    )
    assert sync.spec["rollback"] == {"to": "Previous"}
    told = syncline("rollback", sync.name, "--to", OLD.upper())
    assert told == f"{sync} is rolled back to {OLD[:10]}; --clear ends the rollback\n"
    assert sync.spec["rollback"] == {"to": OLD}
    assert syncline("rollback", sync.name, "--clear") == f"{sync} applies the revision of its spec again\n"
    assert "rollback" not in sync.spec
    assert syncline("rollback", sync.name, "--clear", code=1) == f"{sync} is not rolled back"


def test_the_gateways_of_an_ignitionsync_are_rolled_back_in_the_same_way(store: Store, syncline: Command) -> None:
    sync = store(IGNITION_SYNC)
    sync.report(sourceRevision=NEW, lastSyncRef="main", history=[change(NEW), change(OLD)])
    assert syncline("rollback", f"isync/{sync.name}") == (
        f"{sync} is rolled back to the previous commit; --clear ends the rollback\n"
    )
    assert syncline("rollback", sync.name, "--to", OLD[:8]) == (
        f"{sync} is rolled back to {OLD[:10]}; --clear ends the rollback\n"
    )
    assert sync.spec["rollback"] == {"to": OLD}
    assert "is ambiguous" in syncline("rollback", sync.name, "--to", OLD[:7], code=1)
    assert syncline("rollback", sync.name, "--clear") == f"{sync} applies the revision of its spec again\n"
    assert "rollback" not in sync.spec
    refused = syncline("promote", f"isync/{sync.name}", "--from", "a", "--to", "b", code=1)
    assert refused.startswith("this command does not support the kind IgnitionSync")


def test_an_ignitionsync_is_suspended_and_shown_as_any_other_sync(store: Store, syncline: Command) -> None:
    sync = store(IGNITION_SYNC)
    assert syncline("suspend", "igs", sync.name) == f"{sync} is suspended\n"
    assert sync.spec["suspend"] is True
    sync.report(
        lastSyncRef="v2",
        lastSyncCommit=NEW,
        targets={"desired": 2, "synced": 1, "summary": "1/2"},
        conditions=[condition("Ready", "False", "SyncInProgress")],
        discoveredGateways=[{"name": "site", "podName": "site-0", "syncStatus": "Error", "reason": "ScanFailed"}],
    )
    row = next(line for line in syncline("get", "isync").splitlines() if f" {sync.name} " in line)
    assert row.split()[:-1] == [
        "IgnitionSync",
        "default",
        sync.name,
        "https://git.example.com/plant.git",
        "v2",
        NEW[:10],
        "1/2",
        "False",
        "SyncInProgress",
    ]
    shown = syncline("get", f"isync/{sync.name}")
    assert f"Ref:     v2 {NEW[:10]}\n" in shown
    assert "ScanFailed" in shown
    assert "1 of 2 targets are listed, failures first\n" in shown
    assert sync.name in syncline("get")
    assert syncline("resume", sync.name) == f"{sync} is resumed\n"


def test_a_rollback_to_the_previous_commit_is_not_taken_for_two(store: Store, syncline: Command) -> None:
    sync = store(rollback={"to": "Previous"})
    told = syncline("rollback", sync.name, "--to", "previous", code=1)
    assert told == f"{sync} is already rolled back: write a commit with --to, or end the rollback with --clear first"


def test_one_environment_is_rolled_back_by_its_name(store: Store, syncline: Command) -> None:
    sync = store(environments=ENVIRONMENTS)
    sync.report(environments=[track("dev", history=[change(NEW)]), track("prod", history=[change(OLD)])])
    told = syncline("rollback", sync.name, "--env", "prod", "--to", OLD[:8])
    assert told == f"{sync}, environment prod, is rolled back to {OLD[:10]}; --clear ends the rollback\n"
    assert sync.spec["environments"] == [ENVIRONMENTS[0], {**ENVIRONMENTS[1], "rollback": {"to": OLD}}]
    told = syncline("rollback", sync.name, "--env", "prod", "--clear")
    assert told == f"{sync}, environment prod, applies the revision of its spec again\n"
    assert sync.spec["environments"] == ENVIRONMENTS


def test_a_rollback_to_a_commit_that_is_not_known_changes_nothing_and_says_what_to_do(
    store: Store, syncline: Command
) -> None:
    sync = store()
    told = syncline("rollback", sync.name, "--to", "abcdef0", code=1)
    assert told == (
        "the history has no commit abcdef0: write one of its commits (none yet); for other commits, add --unlisted"
    )
    refused = {**change("d" * 40, "Failed"), "changes": ""}
    sync.report(sourceRevision=NEW, history=[refused, change(NEW), change(OLD, "Failed")], lastHealthyRevision=OTHER)
    # A commit of which nothing was applied is not offered.
    listed = ", ".join(commit[:10] for commit in (NEW, OTHER, OLD))
    told = syncline("rollback", sync.name, "--to", "abcdef0", code=1)
    assert told == (
        f"the history has no commit abcdef0: write one of its commits ({listed}); for other commits, add --unlisted"
    )
    told = syncline("rollback", sync.name, "--to", OLD[:7], code=1)
    assert told == f"{OLD[:7]} is ambiguous ({NEW} or {OTHER} or {OLD}): write more digits"
    assert "needs" in syncline("rollback", sync.name, "--to", "abcdef0", "--unlisted", code=1)
    assert "rollback" not in sync.spec
    syncline("rollback", sync.name, "--to", "f" * 40, "--unlisted")
    assert sync.spec["rollback"] == {"to": "f" * 40}


@pytest.mark.parametrize("form", ["{name}", "csync/{name}", "ConfigSync/{name}", "configsyncs {name}", "CSYNC {name}"])
@pytest.mark.parametrize("command", ["rollback", "suspend", "reconcile", "promote --from dev --to prod", "get"])
def test_every_command_takes_a_sync_by_name_by_kind_and_name_and_by_both_with_a_slash(
    store: Store, syncline: Command, command: str, form: str
) -> None:
    sync = store(**({"environments": ENVIRONMENTS} if command.startswith("promote") else {}))
    sync.report(environments=[track("dev")] if command.startswith("promote") else [])
    told = syncline(*command.split(), *form.format(name=sync.name).split())
    assert told.startswith(str(sync))


def test_a_name_that_several_kinds_have_asks_for_the_kind(quiet: Sandbox, store: Store, syncline: Command) -> None:
    sync = store()
    spec = {"sourceNamespace": "default", "configMapName": "app", "destinationNamespace": "other"}
    body = {"apiVersion": API_VERSION, "kind": "ConfigMapSync", "metadata": {"name": sync.name}, "spec": spec}
    quiet.request("POST", f"/apis/{API_VERSION}/namespaces/default/configmapsyncs", body)
    for command in ("suspend", "get", "reconcile"):
        told = syncline(command, sync.name, code=1)
        assert told == (
            f"several kinds have a {sync.name} in namespace default: write cms/{sync.name} or csync/{sync.name}"
        )
    assert syncline("rollback", sync.name).startswith(str(sync))


def test_a_command_for_some_kinds_refuses_the_others(store: Store, syncline: Command) -> None:
    sync = store()
    told = syncline("rollback", f"cms/{sync.name}", code=1)
    kinds = "ConfigSync (csync), IgnitionSync (isync, igs)"
    assert told == f"this command does not support the kind ConfigMapSync; write one of {kinds}"


def test_a_rollback_says_which_environments_there_are(store: Store, syncline: Command) -> None:
    sync = store(environments=ENVIRONMENTS)
    assert syncline("rollback", sync.name, code=1) == f"{sync} has environments: choose one with --env (dev, prod)"
    told = syncline("rollback", sync.name, "--env", "qa", code=1)
    assert told == f"{sync} has no environment qa: it has dev, prod"
    plain = store()
    assert syncline("rollback", plain.name, "--env", "qa", code=1) == f"{plain} has no environment qa: it has none"


def test_a_rollback_that_the_server_refuses_is_told_in_its_words(store: Store, syncline: Command) -> None:
    sync = store()
    told = syncline("rollback", sync.name, "--to", "main", code=1)
    assert "write Previous, or a commit in 7 to 64 hexadecimal digits" in told
    assert syncline("rollback", "none", code=1) == "there is no ConfigSync or IgnitionSync none in namespace default"


def test_a_promotion_takes_the_commit_that_the_other_environment_is_ready_with(store: Store, syncline: Command) -> None:
    sync = store(environments=ENVIRONMENTS)
    sync.report(environments=[track("dev"), track("prod", sourceRevision=OLD)])
    promote = ("promote", sync.name, "--from", "dev", "--to", "prod")
    assert syncline(*promote) == f"{sync}: prod is set to {NEW[:10]}\n"
    assert sync.spec["environments"] == [ENVIRONMENTS[0], {**ENVIRONMENTS[1], "revision": NEW}]
    assert syncline(*promote) == f"{sync}: prod is already at {NEW[:10]}\n"


def test_a_promotion_of_a_commit_of_the_past_finds_it_by_its_beginning(store: Store, syncline: Command) -> None:
    sync = store(environments=ENVIRONMENTS)
    sync.report(environments=[track("dev", history=[change(NEW), change(OTHER), change("f" * 40, "Failed")])])
    promote = ("promote", sync.name, "--from", "dev", "--to", "prod", "--revision")
    assert syncline(*promote, OTHER[:12]) == f"{sync}: prod is set to {OTHER[:10]}\n"
    assert sync.spec["environments"][1]["revision"] == OTHER
    assert syncline(*promote, OTHER[:7], code=1) == f"{OTHER[:7]} is ambiguous ({NEW} or {OTHER}): write more digits"
    told = syncline(*promote, "f" * 40, code=1)
    assert told == f"dev has no commit {'f' * 40} in its history: write one of its commits ({NEW[:10]}, {OTHER[:10]})"


@pytest.mark.parametrize(
    ("reported", "goal", "told"),
    [
        ([], "prod", "dev has no status yet: check that the operator runs"),
        ([track("dev", "False", message="no disk")], "prod", "dev is not ready: no disk"),
        (
            [track("dev", "Unknown", lastHealthyRevision=OLD)],
            "prod",
            f"dev is not ready; its last healthy commit is {OLD[:10]} (--revision)",
        ),
        ([track("dev")], "dev", "--from and --to are the same environment"),
        ([track("dev")], "qa", "ConfigSync default/{name} has no environment qa: it has dev, prod, held"),
        (
            [track("dev")],
            "held",
            "held is rolled back: end the rollback first (syncline rollback NAME --env held --clear)",
        ),
    ],
    ids=["no status", "failed", "in progress", "the same", "unknown", "rolled back"],
)
def test_a_promotion_that_makes_no_sense_changes_nothing(
    store: Store, syncline: Command, reported: list[Json], goal: str, told: str
) -> None:
    environments = [*ENVIRONMENTS, {"name": "held", "rollback": {"to": OLD}}]
    sync = store(environments=environments)
    sync.report(environments=reported)
    answer = syncline("promote", sync.name, "--from", "dev", "--to", goal, code=1)
    assert answer == told.format(name=sync.name)
    assert sync.spec["environments"] == environments


def test_a_sync_is_suspended_and_resumed(store: Store, syncline: Command) -> None:
    sync = store()
    assert syncline("suspend", "csync", sync.name) == f"{sync} is suspended\n"
    assert sync.spec["suspend"] is True
    told = syncline("reconcile", "csync", sync.name, code=1)
    assert told == f"{sync} is suspended: resume it first (syncline resume)"
    assert syncline("resume", f"csync/{sync.name}") == f"{sync} is resumed\n"
    assert sync.spec["suspend"] is False


def test_a_request_is_made_without_waiting_for_an_answer(store: Store, syncline: Command) -> None:
    sync = store()
    told = syncline("reconcile", "csync", sync.name)
    assert told == f"{sync}: a reconcile is requested; --wait waits for the result\n"
    assert sync.read()["metadata"]["annotations"][REQUESTED_AT]


READY = condition("Ready", "True", "Synced", "2 objects agree")
BROKEN = condition("Ready", "False", "BuildFailed", "a.yaml:3: no name")
BUSY = condition("Reconciling", "True", "Progressing", "trying again")
RETRIED = condition("Reconciling", "True", "Retrying", "trying again")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([[READY]], "is ready: 2 objects agree"),
        ([[BROKEN]], "is not ready: BuildFailed: a.yaml:3: no name"),
        ([[BROKEN, BUSY], [READY]], "is ready: 2 objects agree"),
        ([[]], "is not ready: the sync has no status yet"),
    ],
    ids=["ready", "not ready", "ready in the end", "no condition"],
)
def test_waiting_ends_with_what_came_of_the_request(
    store: Store, syncline: Command, eventually: Eventually, answers: list[list[Json]], told: str
) -> None:
    sync = store()
    # What was so before the request is not taken for its answer.
    sync.report(conditions=[BROKEN if READY in answers[-1] else READY])

    def operate() -> None:
        for answer in answers:
            sync.answer(eventually, *answer)

    operator = Thread(target=operate)
    operator.start()
    said = syncline("reconcile", "csync", sync.name, "--wait", "--timeout", "1m", code=0 if READY in answers[-1] else 1)
    operator.join()
    assert said.strip() == f"{sync} {told}"


STALLED = condition("Stalled", "True", "InvalidManifest", "a.yaml:3: no such field")
REFUSED = condition("Ready", "False", "InvalidManifest", "a.yaml:3: no such field")
FORBIDDEN = condition("Ready", "False", "Forbidden", "1 of 2 targets not in agreement")
NOWHERE = condition("Ready", "False", "NamespaceNotFound", "namespace 'a' does not exist")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([[REFUSED, STALLED, BUSY]], "is not ready: InvalidManifest: a.yaml:3: no such field"),
        ([[FORBIDDEN, RETRIED]], "is not ready: Forbidden: 1 of 2 targets not in agreement"),
        ([[NOWHERE, BUSY]], "is not ready: NamespaceNotFound: namespace 'a' does not exist"),
        ([[FORBIDDEN, BUSY], [READY]], "is ready: 2 objects agree"),
    ],
    ids=[
        "only a new revision helps",
        "it has failed, and is tried again",
        "only a person can help",
        "something is still awaited",
    ],
)
def test_waiting_ends_when_the_outcome_is_known(
    store: Store, syncline: Command, eventually: Eventually, answers: list[list[Json]], told: str
) -> None:
    sync = store()

    def operate() -> None:
        for conditions in answers:
            sync.answer(eventually, *conditions)

    operator = Thread(target=operate)
    operator.start()
    # Nobody waits for that long.
    said = syncline("reconcile", "csync", sync.name, "--wait", "--timeout", "1h", code=0 if "is ready" in told else 1)
    operator.join()
    assert said.strip() == f"{sync} {told}"


def test_waiting_for_an_operator_that_does_not_run_ends_too(store: Store, syncline: Command) -> None:
    sync = store()
    told = syncline("reconcile", "csync", sync.name, "--wait", "--timeout", "300ms", code=1)
    assert told == (
        f"{sync} is not ready: the operator has not reported a status: check that it runs, and that it watches"
        " this namespace"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("reconcile", "st", "edge"),
            "this command does not support the kind SyncTarget; write one of ConfigMapSync (cms), ManifestSync (msync)",
        ),
        (("suspend", "csync"), "the name of the ConfigSync is missing: write KIND and NAME"),
        (("resume", "cms/none"), "there is no ConfigMapSync none in namespace default"),
        (
            ("resume", "none"),
            "there is no ConfigMapSync or ManifestSync or ConfigSync or WorkspaceSync or IgnitionSync none",
        ),
        (("resume", "sync", "none"), "'sync' is not a kind of Syncline; write one of ConfigMapSync (cms)"),
    ],
    ids=["a cluster", "no name", "absent", "absent of all kinds", "no kind"],
)
def test_what_cannot_be_carried_out_is_said_in_one_line(syncline: Command, words: tuple[str, ...], told: str) -> None:
    assert syncline(*words, code=1).startswith(told)


def rows(told: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in told.splitlines() if line]


def test_get_lists_the_commits_of_syncs_and_of_their_environments(store: Store, syncline: Command) -> None:
    plain, many = store(), store(environments=ENVIRONMENTS)
    other = store(source=None, sources=[{"name": "a", "configMapRef": {"name": "files"}}, {"name": "b", **GIT}])
    plain.report(sourceRevision=NEW, targets={"summary": "2/2"}, conditions=[READY])
    many.report(environments=[track("dev"), {"name": "prod"}], targets={"summary": "1/2"}, conditions=[BROKEN])
    told = rows(syncline("get", "csync"))
    assert told[0] == ["KIND", "NAMESPACE", "NAME", "SOURCE", "REVISION", "TARGETS", "READY", "REASON", "AGE"]
    found = {row[2]: row[3:-1] for row in told[1:]}
    repo = GIT["git"]["repo"]
    assert found[plain.name] == [repo, NEW[:10], "2/2", "True", "Synced"]
    assert found[many.name] == [repo, f"dev {NEW[:10]}, prod -", "1/2", "False", "BuildFailed"]
    assert found[other.name] == ["ConfigMap files and 1 more", "-", "-", "-", "-"]


def test_get_shows_what_is_applied_where_it_stays_and_how_it_came_there(store: Store, syncline: Command) -> None:
    sync = store()
    sync.report(
        sourceRevision=OLD,
        rollback={"to": OLD, "requested": "Previous", "since": NOW},
        lastSyncedTime=NOW,
        targets={"desired": 2, "synced": 2, "summary": "2/2"},
        conditions=[READY],
        history=[change(OLD), {**change(NEW, "Failed"), "changes": "", "reason": "BuildFailed", "message": "no kind"}],
        plan=["create ConfigMap team-a/web"],
    )
    told = rows(syncline("get", "csync", sync.name))
    facts = [" ".join(" ".join(row).split()) for row in told]
    assert f"Source: {GIT['git']['repo']}, revision {OLD[:10]}" in facts
    assert f"Stays at: {OLD[:10]}, since {NOW} (rollback)" in facts
    assert "Targets: 2/2 synced" in facts
    assert any(fact.startswith(f"Last sync: {NOW} (") for fact in facts)
    assert ["create ConfigMap team-a/web"] in told
    header = told.index(["WHEN", "REVISION", "RESULT", "CHANGES", "WHY"])
    assert [row[1:] for row in told[header + 1 :]] == [
        [OLD[:10], "Synced", "1 created"],
        [NEW[:10], "Failed", "-", "BuildFailed: no kind"],
    ]


def test_get_shows_each_environment(store: Store, syncline: Command) -> None:
    sync = store(environments=ENVIRONMENTS)
    held = {"to": OLD, "requested": "Previous", "since": NOW}
    sync.report(
        environments=[
            track("dev", "False", message="no disk", history=[change(NEW, "Failed")]),
            track("prod", sourceRevision=OLD, rollback=held, history=[change(OLD)]),
        ]
    )
    told = rows(syncline("get", "csync", sync.name))
    header = told.index(["ENVIRONMENT", "REVISION", "READY", "STAYS AT", "MESSAGE"])
    assert told[header + 1 : header + 3] == [
        ["dev", NEW[:10], "False", "-", "no disk"],
        ["prod", OLD[:10], "True", OLD[:10]],
    ]
    history = told.index(["ENVIRONMENT", "WHEN", "REVISION", "RESULT", "CHANGES", "WHY"])
    assert [(row[0], *row[2:4]) for row in told[history + 1 :]] == [
        ("dev", NEW[:10], "Failed"),
        ("prod", OLD[:10], "Synced"),
    ]
