"""Every field of a spec has an effect, or the condition `Unsupported` names it: nothing is ignored in silence."""

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.core.gateway_world import composed, pod, tree

from syncline.api.common import ObjectMeta
from syncline.api.crd import schema
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.ignitionsync import IgnitionSyncSpec, is_paused
from syncline.api.kinds import KINDS
from syncline.controllers.gateways import repositories
from syncline.controllers.gateways.fleet import _webhook_secret
from syncline.controllers.gateways.named_secrets import named_secrets
from syncline.controllers.gateways.repositories import GatewayRepositories
from syncline.controllers.kinds.ignitionsync import IgnitionSyncKind
from syncline.core import injection
from syncline.core.gateway_profiles import ProfileError
from syncline.core.gateway_refs import requested_ref
from syncline.core.gateway_target import strategy_of, target_commit
from syncline.core.gateway_unsupported import unsupported_fields
from syncline.core.pushes import Push
from syncline.engine.sync_object import Sync
from syncline.settings import Settings

Json = dict[str, Any]
ABSENT = object()
A, B = "a" * 40, "b" * 40
FILES = tree(
    *("projects/a/project.json", "other/a/project.json", "a/b.json", "svc/projects/p/project.json", "ext/x.json"),
    *("projects/var/x", "scripts/code.py", "udts/u.json", "projects/x.tmp", "var/y.txt"),
)
REF = {"secretRef": {"name": "s", "key": "k"}}
BASE: Json = {
    "git": {"repo": "https://git.example.com/plant.git", "ref": "main"},
    "gateway": {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}},
    "sync": {"profiles": {"default": {"mappings": [{"source": "projects", "destination": "projects"}]}}},
}
APP = {"appId": 1, "installationId": 2, "privateKeySecretRef": {"name": "s", "key": "k"}}
BACK = {"enabled": True, "watchPaths": ["projects/**"], "targetBranch": "changes"}
CONTEXT: dict[str, Json] = {
    "git.auth.sshKey": {
        "git": {"repo": "ssh://git@h/p", "ref": "main", "auth": {"sshKey": {**REF, "knownHosts": REF}}}
    },
    "git.auth.githubApp": {"git": {**BASE["git"], "auth": {"githubApp": APP}}},
    "git.auth.token": {"git": {**BASE["git"], "auth": {"token": REF}}},
    "webhook.secretRef": {"webhook": REF},
    "sync.profiles.*.mappings[].patches": {
        "sync": {
            "profiles": {
                "default": {
                    "mappings": [{"source": "projects", "destination": "projects", "patches": [{"set": {"site": "1"}}]}]
                }
            }
        }
    },
    "siteNumber": {"sync": {}},
    "shared": {
        "sync": {},
        "shared": {
            "externalResources": {"enabled": True, "source": "ext"},
            "scripts": {"enabled": True, "source": "scripts", "destPath": "ignition/script-python/x"},
            "udts": {"enabled": True, "source": "udts"},
        },
    },
    "additionalFiles": {"sync": {}, "additionalFiles": [{"source": "a/b.json", "dest": "x/b.json"}]},
    "unprotected": {"sync": {"profiles": {"default": {"mappings": [{"source": "var", "destination": "var"}]}}}},
    "normalize.fields": {"normalize": {"fields": [{"jsonPath": ".a", "valueTemplate": "v"}]}},
    "validation.webhook": {"validation": {"webhook": {"url": "https://checks.example.com/x"}}},
    "apply.http": {"apply": {"type": "HTTP", "http": {"port": 80, "headers": [{"name": "X", **REF}]}}},
    "apply.signal": {"apply": {"type": "Signal", "signal": {"process": "nginx"}}},
    "deployment": {"deployment": {"strategy": "canary", "stages": [{"name": "one"}]}},
    "deployment.syncOrder": {"deployment": {}},
    "deployment.autoRollback": {"deployment": {"autoRollback": {"enabled": True}}},
    "snapshots": {"snapshots": {"enabled": True}},
    "bidirectional": {"bidirectional": BACK},
}
"""What a field needs around it, by the beginning of its path."""
ACTED: dict[str, tuple[Any, Any]] = {
    "git.repo": ("https://git.example.com/a.git", "https://git.example.com/b.git"),
    "git.ref": ("main", "v2"),
    "git.auth.sshKey.secretRef.name": ("a", "b"),
    "git.auth.sshKey.secretRef.key": ("a", "b"),
    "git.auth.sshKey.knownHosts.secretRef.name": ("a", "b"),
    "git.auth.sshKey.knownHosts.secretRef.key": ("a", "b"),
    "git.auth.githubApp.appId": (1, 3),
    "git.auth.githubApp.installationId": (2, 3),
    "git.auth.githubApp.privateKeySecretRef.name": ("a", "b"),
    "git.auth.githubApp.privateKeySecretRef.key": ("a", "b"),
    "git.auth.githubApp.apiBaseURL": (ABSENT, "https://github.example.com/api/v3"),
    "git.auth.token.secretRef.name": ("a", "b"),
    "git.auth.token.secretRef.key": ("a", "b"),
    "git.caSecretRef.name": (ABSENT, "ca"),
    "polling.enabled": (True, False),
    "polling.interval": ("60s", "90s"),
    "webhook.enabled": (True, False),
    "webhook.secretRef.name": ("a", "b"),
    "webhook.secretRef.key": ("a", "b"),
    "webhook.allowedRefs[]": (ABSENT, "none"),
    "gateway.port": (8043, 8044),
    "gateway.tls": (True, False),
    "gateway.apiKeySecretRef.name": ("a", "b"),
    "gateway.apiKeySecretRef.key": ("a", "b"),
    "sync.defaults.excludePatterns[]": (ABSENT, "*.tmp"),
    "sync.defaults.vars.*": ("1", "2"),
    "sync.defaults.designerSessionPolicy": (ABSENT, "fail"),
    "sync.defaults.dryRun": (False, True),
    "sync.defaults.paused": (False, True),
    "sync.profiles.*.mappings[].source": ("projects", "other"),
    "sync.profiles.*.mappings[].destination": ("projects", "x"),
    "sync.profiles.*.mappings[].type": ("dir", "file"),
    "sync.profiles.*.mappings[].required": ("nowhere", "required"),
    "sync.profiles.*.mappings[].template": (False, True),
    "sync.profiles.*.mappings[].patches[].file": (ABSENT, "**/project.json"),
    "sync.profiles.*.mappings[].patches[].set.*": ("1", "2"),
    "sync.profiles.*.excludePatterns[]": (ABSENT, "*.tmp"),
    "sync.profiles.*.vars.*": ("1", "2"),
    "sync.profiles.*.designerSessionPolicy": (ABSENT, "fail"),
    "sync.profiles.*.dryRun": (False, True),
    "sync.profiles.*.paused": (False, True),
    "siteNumber": ("7", "8"),
    "shared.externalResources.enabled": (True, False),
    "shared.externalResources.source": ("ext", "other"),
    "shared.scripts.enabled": (True, False),
    "shared.scripts.source": ("scripts", "other"),
    "shared.scripts.destPath": ("a", "b"),
    "shared.udts.enabled": (True, False),
    "shared.udts.source": ("udts", "other"),
    "additionalFiles[].source": ("a/b.json", "ext/x.json"),
    "additionalFiles[].dest": ("a", "b"),
    "additionalFiles[].type": ("file", "dir"),
    "excludePatterns[]": ("**/.gitkeep", "*.tmp"),
    "unprotected[]": (ABSENT, "var"),
    "normalize.systemName": (False, True),
    "normalize.fields[].jsonPath": (".a", ".b"),
    "normalize.fields[].valueTemplate": ("a", "b"),
    "validation.webhook.url": ("https://checks.example.com/a", "https://checks.example.com/b"),
    "validation.webhook.timeout": ("10s", "20s"),
    "apply.type": ("Ignition", "None"),
    "apply.http.port": (80, 81),
    "apply.http.path": ("/a", "/b"),
    "apply.http.method": ("POST", "PUT"),
    "apply.http.tls": (False, True),
    "apply.http.headers[].name": ("A", "B"),
    "apply.http.headers[].secretRef.name": ("a", "b"),
    "apply.http.headers[].secretRef.key": ("a", "b"),
    "apply.http.expectedCodes[]": (200, 201),
    "apply.http.timeout": ("10s", "20s"),
    "apply.signal.process": ("nginx", "haproxy"),
    "apply.signal.signal": ("SIGHUP", "SIGUSR1"),
    "ignition.designerSessionPolicy": ("wait", "fail"),
    "driftPolicy": ("Correct", "Report"),
    "deployment.strategy": ("canary", "all-at-once"),
    "deployment.stages[].name": ("a", "b"),
    "deployment.stages[].gatewaySelector.*": ("1", "2"),
    "deployment.syncOrder[]": ("a", "b"),
    "deployment.autoRollback.enabled": (True, False),
    "deployment.autoRollback.triggers[]": ("scanFailure", "timeout"),
    "deployment.autoRollback.timeout": ("10m", "20m"),
    "rollback.to": (ABSENT, B),
    "snapshots.enabled": (True, False),
    "snapshots.retentionCount": (5, 6),
    "bidirectional.enabled": (True, False),
    "bidirectional.watchPaths[]": ("a", "b"),
    "bidirectional.targetBranch": ("a", "b"),
    "bidirectional.debounce": ("30s", "40s"),
    "bidirectional.conflictStrategy": ("gitWins", "manual"),
    "bidirectional.guardrails.maxFileSize": ("10Mi", "1Mi"),
    "bidirectional.guardrails.maxFilesPerPR": (100, 1),
    "bidirectional.guardrails.excludePatterns[]": (ABSENT, "*.tmp"),
    "agent.image.repository": (ABSENT, "registry.example.com/agent"),
    "agent.image.tag": (ABSENT, "v1"),
    "agent.image.digest": (ABSENT, f"sha256:{'0' * 64}"),
    "agent.image.pullPolicy": ("IfNotPresent", "Always"),
    "agent.resources.requests.*": ("1", "2"),
    "agent.resources.limits.*": ("1", "2"),
    "paused": (False, True),
    "suspend": (False, True),
    "serviceAccountName": (ABSENT, "robot"),
}
NAMED: dict[str, tuple[str, Json]] = {
    "webhook.port": ("webhook.port", {"webhook": {"port": 9000}}),
    "sync.defaults.syncPeriod": ("sync.syncPeriod", {"sync": {"defaults": {"syncPeriod": 60}}}),
    "sync.profiles.*.syncPeriod": (
        "sync.syncPeriod",
        {"sync": {"profiles": {"default": {"mappings": [{"source": "a", "destination": "a"}], "syncPeriod": 60}}}},
    ),
    "shared.externalResources.createFallback": (
        "shared.externalResources.createFallback",
        {"sync": {}, "shared": {"externalResources": {"createFallback": True}}},
    ),
    "apply.command.command[]": ("apply.type: Command", {"apply": {"type": "Command", "command": {"command": ["x"]}}}),
    "ignition.perspectiveSessionPolicy": (
        "ignition.perspectiveSessionPolicy",
        {"ignition": {"perspectiveSessionPolicy": "graceful"}},
    ),
    "ignition.redundancyRole": ("ignition.redundancyRole", {"ignition": {"redundancyRole": "primary"}}),
    "ignition.peerGatewayName": ("ignition.peerGatewayName", {"ignition": {"peerGatewayName": "peer"}}),
    **{
        f"snapshots.storage.{field}": (
            "snapshots.storage.type: s3",
            {"snapshots": {"enabled": True, "storage": {"type": "s3", "s3": {"bucket": "b"}}}},
        )
        for field in ("type", "s3.bucket", "s3.keyPrefix", "s3.endpoint", "s3.region")
    },
    **{
        f"snapshots.storage.s3.{field}.{part}": (
            "snapshots.storage.s3",
            {"snapshots": {"enabled": True, "storage": {"s3": {"bucket": "b"}}}},
        )
        for field in ("accessKeySecretRef", "secretKeySecretRef")
        for part in ("name", "key")
    },
    **{f"storage.{field}": ("storage", {"storage": {}}) for field in ("storageClassName", "size", "accessMode")},
}
"""The fields that are named, each with its name and with a spec that has it."""
_EDIT = "tests/ignitionsync/test_bidirectional.py::test_an_edit_on_a_gateway_becomes_a_commit_and_a_pull_request"
ELSEWHERE = {
    "validation.dryRunBefore": "tests/files/test_drift_and_guard.py::test_broken_json_publishes_nothing",
    "bidirectional.createPR": _EDIT,
    "bidirectional.prLabels[]": _EDIT,
    "bidirectional.provider": "tests/git/test_pull_requests.py::test_one_pull_request_is_open_for_a_branch",
}
"""The fields whose effect needs a world; the test that shows it."""


def leaves(found: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of all fields of a schema."""
    if "properties" in found:
        for name, below in found["properties"].items():
            yield from leaves(below, f"{path}.{name}" if path else name)
    elif found.get("type") == "array":
        yield from leaves(found["items"], f"{path}[]")
    elif isinstance(found.get("additionalProperties"), dict):
        yield from leaves(found["additionalProperties"], f"{path}.*")
    else:
        yield path


def spec_fields() -> list[str]:
    kind = next(kind for kind in KINDS if kind.kind == "IgnitionSync")
    return list(leaves(cast("Json", schema(kind))["properties"]["spec"]))


def with_value(path: str, value: Any) -> IgnitionSyncSpec:
    """Return a spec with one value, and with what the field needs around it."""
    fitting = [start for start in CONTEXT if path == start or path.startswith((f"{start}.", f"{start}["))]
    raw = {**copy.deepcopy(BASE), **copy.deepcopy(CONTEXT.get(max(fitting, key=len, default=""), {}))}
    if path.endswith(".required"):
        raw["sync"]["profiles"]["default"]["mappings"][0]["source"] = "nowhere"
        value = value == "required"
    if value is not ABSENT:
        put(raw, path, value)
    if (path, value) == ("deployment.strategy", "all-at-once"):
        del raw["deployment"]["stages"]
    return msgspec.convert(raw, IgnitionSyncSpec)


def put(place: Any, path: str, value: Any) -> None:
    """Set a value in nested objects: the first item of a list, and one entry of a map."""
    head, _, rest = path.partition(".")
    name, is_list = head.removesuffix("[]"), head.endswith("[]")
    name = {"*": "default" if "default" in place else "site"}.get(name, name)
    if not rest:
        place[name] = [value] if is_list else value
    elif is_list:
        put(place.setdefault(name, [{}])[0], rest, value)
    else:
        put(place.setdefault(name, {}), rest, value)


class Lookups(defaultdict[str, bytes]):
    """A Secret that has every key, and says its own name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def get(self, key: str, default: Any = None) -> Any:
        del default
        return f"{self._name}/{key}".encode()

    def __missing__(self, key: str) -> bytes:
        return f"{self._name}/{key}".encode()


async def remote_of(kind: IgnitionSyncKind, sync: Any) -> Any:
    """Return what a repository is opened with."""

    async def get(_: object, target: Any, what: str) -> Any:
        return SimpleNamespace(data=Lookups(target.name), what=what)

    opened = GatewayRepositories(cast("Any", SimpleNamespace(get=get)), cast("Any", None), cast("Any", None))
    *rest, ca = cast("Any", await opened.remote(kind.requester(sync), sync.spec.git))
    return (*rest, ca and ca["ca.crt"])


async def effects(spec: IgnitionSyncSpec) -> tuple[Any, ...]:
    """Return what a spec makes the operator do, as far as it is decided without a world."""
    meta = ObjectMeta(name="plant", namespace="site", uid="u", generation=1)
    sync: Any = Sync(kind="IgnitionSync", metadata=meta, spec=spec, status=IgnitionSyncStatus())
    kind = IgnitionSyncKind(Settings().tenancy())
    try:
        facts = msgspec.structs.replace(pod(service_path="svc"), shares_processes=True)
        plan: Any = composed(spec, FILES, facts)
    except ProfileError as error:
        plan = str(error)
    push = Push(host="GitHub", kind="Release", refs=("refs/tags/v1",))
    return (
        plan,
        kind.requester(sync),
        await remote_of(kind, sync),
        spec.git.ref,
        injection.facts_of("plant", spec),
        sorted(named_secrets(spec)),
        (spec.webhook.enabled, _webhook_secret(sync), requested_ref(spec.webhook, spec.git.ref, push)),
        (strategy_of(spec), target_commit(spec, IgnitionSyncStatus(), A, "").commit),
        is_paused(spec),
    )


def test_every_field_of_the_schema_is_in_one_of_the_tables() -> None:
    known = [*ACTED, *NAMED, *ELSEWHERE]
    assert sorted(known) == sorted(spec_fields())


@pytest.mark.parametrize("path", ACTED)
async def test_a_field_that_is_supported_has_an_effect(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repositories, "remote_from", lambda *given: given)
    one, other = (with_value(path, value) for value in ACTED[path])
    assert one != other
    assert await effects(one) != await effects(other)
    assert unsupported_fields(one) == []


@pytest.mark.parametrize("path", NAMED)
def test_a_field_that_is_not_supported_is_named_with_the_behaviour_instead(path: str) -> None:
    name, given = NAMED[path]
    spec = msgspec.convert({**BASE, **given}, IgnitionSyncSpec)
    [told] = unsupported_fields(spec)
    assert told.startswith(f"{name} (")


@pytest.mark.parametrize("path", ELSEWHERE)
def test_the_effect_of_every_other_field_has_a_test(path: str) -> None:
    file, _, name = ELSEWHERE[path].partition("::")
    assert f"def {name}(" in (Path(__file__).parents[2] / file).read_text()
