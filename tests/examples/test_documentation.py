"""What the documentation says, held against the code and a real API server."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from prometheus_client import REGISTRY
from tests.commands import run_command
from tests.examples import reasons
from tests.examples.scene import ROOT

import syncline.controllers.gateways.metrics
import syncline.controllers.sources.build
import syncline.depot.metrics
import syncline.fleet.metrics
import syncline.git.errors
import syncline.git.metrics
import syncline.kube.metrics
import syncline.receiver.metrics
import syncline.telemetry.metrics
from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS
from syncline.controllers.kinds.configmapsync import RESOURCE as SYNCS
from syncline.deploy import Manifest
from syncline.kube import errors
from syncline.sandbox import RequestError, Sandbox

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GUIDED = ("configmapsync", "manifestsync", "configsync", "workspacesync", "ignitionsync", "tenants")
GUIDES = [ROOT / "docs" / f"{name}.md" for name in GUIDED]
OPERATIONS = ROOT / "docs" / "operations.md"
# Names of several words in the source that are no reasons, and one reason's neighbour that looks like one.
OTHER_NAMES = {"ConfigMap", "DoesNotExist", "DownstreamWins", "LastWriteWins", "NotIn", "OneWay", "SourceWins"}
OTHER_NAMES |= {"DestinationWins", "UpstreamWins", "MergeChanges", "Overwritten", "InCluster", "RemoteCluster"}
OTHER_NAMES |= {"UpstreamReading"}
OTHER_NAMES |= {"BothGone", "BothPresent", "DeletedDownstream", "DeletedUpstream", "EditedDownstream", "EditedUpstream"}
OTHER_NAMES |= {"OnlyDownstream", "OnlyUpstream", "CredentialExpiring", "KubeconfigSecret", "ServiceAccountToken"}
# Kinds, and types of Services.
OTHER_NAMES |= {"ClusterRole", "ClusterRoleBinding", "ComponentStatus", "ControllerRevision", "CronJob", "DaemonSet"}
OTHER_NAMES |= {"DeviceTaintRule", "PersistentVolume", "PersistentVolumeClaim", "ReplicaSet", "ReplicationController"}
OTHER_NAMES |= {
    "ResourceSlice",
    "RoleBinding",
    "SelfSubjectAccessReview",
    "ServiceAccount",
    "StatefulSet",
    "SyncTarget",
}
OTHER_NAMES |= {"VolumeAttachment", "ExternalName", "LoadBalancer", "NodePort"}
# Of the fleet.
OTHER_NAMES |= {
    "ClusterDown",
    "ClusterHealth",
    "IdentityProbe",
    "LocalOnly",
    "MemberKey",
    "NotResolved",
    "ReadSecret",
    "SecretWire",
    "Up",
}
# Of Git: states of targets that stand where reasons do, decisions about revisions, hosts, and what health goes by.
OTHER_NAMES |= {"Skipped", "Unknown", "Head", "HeadUnknown", "NotFound", "NothingHealthy", "GitHub", "GitHubApp"}
OTHER_NAMES |= {"GitLab"}
OTHER_NAMES |= {
    "AbleToScale",
    "CrashLoopBackOff",
    "NamesAccepted",
    "NewReplicaSetAvailable",
    "OnDelete",
    "PodScheduled",
}
OTHER_NAMES |= {"ProgressDeadlineExceeded", "ReplicaFailure", "ScalingActive", "ScalingDisabled"}
OTHER_NAMES |= {"CustomResourceDefinition", "HorizontalPodAutoscaler", "LimitRange", "PodDisruptionBudget"}
OTHER_NAMES |= {"ResourceQuota", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

# Of upstreams: conditions, kinds and types.
OTHER_NAMES |= {"Endpoints", "EndpointSlice", "PodTemplate", "StatusSynced", "UpstreamReady"}
OTHER_NAMES |= {"FanOut", "GroupKind", "GroupResource", "ReadObjects", "RemoteStatus", "UpstreamSource"}

# Of gateways: names of variables in Go templates, actions and types.
OTHER_NAMES |= {"GatewayName", "Hold", "Pause", "PodName", "PodOrdinal", "ServicePath", "SiteNumber", "TemplateError"}
# And of their status: conditions, states, events without their prefix, and a credential.
OTHER_NAMES |= {"AgentsReady", "AllGatewaysSynced", "BidirectionalReady", "RepoCloned", "WebhookReady"}
OTHER_NAMES |= {"ConfigMaps", "GatewayReport", "MissingSidecar", "SomeSync", "Token"}
# Of the container of an agent: values of fields that Kubernetes defines.
OTHER_NAMES |= {"FallbackToLogsOnError", "RuntimeDefault"}
# Of the webhook that adds it.
OTHER_NAMES |= {"IfNeeded", "MutatingWebhookConfiguration"}
# Reasons that agents report.
OTHER_NAMES |= {"ApplyFailed", "ScanFailed", "VerifyFailed"}

# Of the agent: types and kinds.
OTHER_NAMES |= {
    "AgentState",
    "ApplyError",
    "ApplySession",
    "BlobWriter",
    "Correct",
    "NoAdapter",
    "NoSession",
    "Report",
    "TokenRequest",
}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets() -> Iterator[tuple[Path, Manifest]]:
    for page in PAGES:
        for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
            if language == "yaml":
                yield from ((page, document) for document in yaml.safe_load_all(text))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def explanations() -> list[str]:
    sections = (
        guide.read_text(encoding="utf-8").partition("\n## Every reason, and what to do\n")[2] for guide in GUIDES
    )
    return [reason for section in sections for reason in first_cells(section)]


def explained() -> set[str]:
    return set(explanations())


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("snippet", [pytest.param(found, id=page_id(page)) for page, found in snippets()])
def test_every_snippet_is_taken_by_the_api_server(sandbox: Sandbox, snippet: Manifest) -> None:
    assert snippet["apiVersion"] == API_VERSION
    kind = {kind.kind: kind for kind in ALL_KINDS}[snippet["kind"]]
    where = {"namespace": "default"} if kind.namespaced else {}
    snippet = {**snippet, "metadata": {**snippet["metadata"], **where}}
    folder = "namespaces/default/" if kind.namespaced else ""
    path = f"/apis/{API_VERSION}/{folder}{kind.plural}?dryRun=All&fieldValidation=Strict"
    sandbox.request("POST", path, snippet)


@pytest.mark.usefixtures("crds")
def test_a_snippet_with_an_unknown_field_would_be_noticed(sandbox: Sandbox) -> None:
    spec = {"sourceNamespace": "a", "configMapName": "b", "destinationNamespace": "c", "destination": "d"}
    wrong = {
        "apiVersion": SYNCS.api_version,
        "kind": SYNCS.kind,
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": spec,
    }
    with pytest.raises(RequestError, match=r'unknown field "spec\.destination"'):
        sandbox.request("POST", f"{SYNCS.path('default')}?dryRun=All&fieldValidation=Strict", wrong)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_reason_is_explained() -> None:
    source = ROOT / "src" / "syncline"
    assert reasons.given(source) - OTHER_NAMES - explained() == set()
    assert reasons.words(source) - OTHER_NAMES - explained() == set()


def test_no_reason_is_invented() -> None:
    source = ROOT / "src" / "syncline"
    of_servers = {name for kind in (errors, syncline.git.errors) for name in dir(kind) if _is_class(kind, name)}
    known = reasons.given(source) | reasons.words(source) | reasons.constants(source) | of_servers
    assert explained() - known == set()


def _is_class(module: ModuleType, name: str) -> bool:
    return isinstance(getattr(module, name), type)


def test_every_way_in_which_git_fails_is_explained() -> None:
    # Their reasons are their names, but for those that other failures have already: GitUnreachable and NotAllowed.
    own = (each for each in syncline.git.errors.GitError.__subclasses__() if each.__module__ == "syncline.git.errors")
    assert {each.__name__ for each in own} - {"RepositoryUnreachable", "MirrorOverQuota"} - explained() == set()


def test_every_reason_is_explained_once() -> None:
    assert sorted(explanations()) == sorted(explained())


def test_every_metric_is_listed() -> None:
    assert syncline.controllers.sources.build
    assert syncline.controllers.gateways.metrics
    assert syncline.depot.metrics
    assert syncline.fleet.metrics
    assert syncline.git.metrics
    assert syncline.kube.metrics
    assert syncline.receiver.metrics
    assert syncline.telemetry.metrics
    counted = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in REGISTRY.collect()
        if family.name.startswith("syncline_")
    }
    _, _, section = OPERATIONS.read_text(encoding="utf-8").partition("\n## Metrics\n")
    listed = {name for name in first_cells(section) if name.startswith("syncline_")}
    assert listed == counted
    moved = (OPERATIONS.parent / "migration-from-stoker.md").read_text(encoding="utf-8")
    assert set(re.findall(r"syncline_\w+", moved)) <= counted


@pytest.mark.parametrize(
    ("command", "heading"),
    [
        ("run", "## Flags"),
        ("suspend", "### syncline suspend, syncline resume"),
        *(
            (command, f"### syncline {command}")
            for command in ("get", "plan", "diff", "reconcile", "rollback", "promote", "doctor")
        ),
    ],
)
def test_every_flag_of_a_command_is_listed(command: str, heading: str) -> None:
    shown = run_command([command, "--help"])
    _, _, options = shown.stdout.partition("\noptions:\n")
    flags = set(re.findall(r"^  (?:-\w.*?, )?(--[a-z-]+)", options, re.MULTILINE)) - {"--help"}
    _, _, section = OPERATIONS.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    section = re.split(r"\n##+ ", section)[0]
    listed = {flag for row in re.findall(r"^\| (.+?) \|", section, re.MULTILINE) for flag in _flags(row)}
    shared = {"--kubeconfig", "--context"} if command != "run" else set()
    assert listed | shared == flags


def _flags(cell: str) -> list[str]:
    return re.findall(r"--[a-z-]+", cell)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_file_and_command_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:[a-z]+/)+[a-z_]+\.py)`", text)
    package = ROOT / "src" / "syncline"
    assert [name for name in files if not (package / name).exists() and not (ROOT / name).exists()] == []
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    called = re.findall(r"(?:`|^    )(?:\w+=\S+ )?make ([a-z]+)", text, re.MULTILINE)
    assert [name for name in called if name not in targets] == []
