"""Injects the agent into new pods: the sync of a pod, and the JSON patch that adds the container of the agent. Pure.

No pod is refused. A pod that cannot have an agent stays unchanged, and a warning names the cause.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from syncline.api.ignition_agent import AgentImage
from syncline.api.ignition_annotations import CR_NAME, DATA_PATH, DATA_VOLUME
from syncline.api.ignitionsync import IgnitionSyncSpec, is_paused
from syncline.core.gateway_plan import AUDIENCE

AGENT = "syncline-agent"
"""The name of the container."""
TOKEN_VOLUME = "syncline-token"  # noqa: S105 - the name of a volume
KEY_VOLUME = "syncline-api-key"
SECRETS_VOLUME = "syncline-secrets"
DATA_FOLDER = "/usr/local/bin/ignition/data"
"""The path of the data folder of an Ignition gateway."""
DATA_VOLUMES = ("ignition-data", "data")
"""The usual names of the volume of the data folder."""
HEALTH_PORT = 15080
"""The port of the probes, or the next port that no container of the pod names."""
STARTUP_PATH, HEALTH_PATH = "/startupz", "/healthz"

DEFAULT_REQUESTS = {"cpu": "50m", "memory": "64Mi"}
DEFAULT_LIMITS = {"cpu": "200m", "memory": "256Mi"}
MIRROR = "kubernetes.io/config.mirror"
MAX_NAMED = 5
"""The maximum number of syncs that a warning names."""

_RUN = "/var/run/syncline"
_READABLE = 0o444
_TOKEN_SECONDS = 3600
_ROOT = 0

Result = Literal["injected", "present", "skipped"]


class SecretFile(Struct, frozen=True):
    """A key of a Secret that is mounted into the pod."""

    secret: str
    key: str


class SyncFacts(Struct, frozen=True, kw_only=True):
    """The facts about a sync that the container of the agent needs."""

    name: str
    paused: bool = False
    image: AgentImage = AgentImage()
    requests: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    api_key: SecretFile | None = None
    secrets: tuple[SecretFile, ...] = ()
    """The values of the headers of `apply.http`."""
    needs_processes: bool = False
    """Whether the agent must see the processes of the pod, for `apply.signal`."""


class AgentFacts(Struct, frozen=True):
    """The facts that the containers of all agents share."""

    image: str
    """The image of the operator, which also is that of the agent."""
    depot_url: str
    ca: str
    """The CA certificates of the depot, as PEM."""


class Injection(Struct, frozen=True):
    """The patch and the warnings for a pod."""

    result: Result
    patch: list[dict[str, Any]] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


class _Security(Struct, frozen=True, rename="camel"):
    run_as_user: int | None = None
    run_as_group: int | None = None


class _Mount(Struct, frozen=True, rename="camel"):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class _ContainerPort(Struct, frozen=True, rename="camel"):
    container_port: int = 0
    host_port: int = 0


class _Variable(Struct, frozen=True):
    name: str = ""
    value: str = ""


class _PodContainer(Struct, frozen=True, rename="camel"):
    name: str = ""
    env: list[_Variable] | None = None
    volume_mounts: list[_Mount] | None = None
    ports: list[_ContainerPort] | None = None
    security_context: _Security | None = None
    restart_policy: str = ""


class _Claim(Struct, frozen=True, rename="camel"):
    read_only: bool = False


class _Volume(Struct, frozen=True, rename="camel"):
    name: str = ""
    persistent_volume_claim: _Claim | None = None
    config_map: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    downward_api: dict[str, Any] | None = field(default=None, name="downwardAPI")
    projected: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class _System(Struct, frozen=True):
    name: str = ""


class _PodShape(Struct, frozen=True, rename="camel"):
    containers: list[_PodContainer] | None = None
    init_containers: list[_PodContainer] | None = None
    volumes: list[_Volume] | None = None
    security_context: _Security | None = None
    os: _System | None = None
    share_process_namespace: bool | None = None


class _PodNames(Struct, frozen=True):
    annotations: dict[str, str] | None = None


class NewPod(Struct, frozen=True):
    """The fields of a new pod that an injection reads. Decode it from the object of an admission review."""

    metadata: _PodNames = field(default_factory=_PodNames)
    spec: _PodShape = field(default_factory=_PodShape)

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.metadata.annotations or {}


class NoAgentError(Exception):
    """A pod cannot have an agent. The message names the cause and the remedy."""


def facts_of(name: str, spec: IgnitionSyncSpec) -> SyncFacts:
    """Return the facts of a sync."""
    key = spec.gateway.api_key_secret_ref
    headers = spec.apply.http.headers if spec.apply.http is not None else []
    return SyncFacts(
        name=name,
        paused=is_paused(spec),
        image=spec.agent.image,
        requests=dict(spec.agent.resources.requests),
        limits=dict(spec.agent.resources.limits),
        api_key=None if key is None else SecretFile(key.name, key.key),
        secrets=tuple(dict.fromkeys(SecretFile(one.secret_ref.name, one.secret_ref.key) for one in headers)),
        needs_processes=spec.apply.signal is not None,
    )


def chosen_sync(pod: NewPod, names: Sequence[str]) -> str:
    """Return the name of the sync of a pod, from the syncs of its namespace. Raises `NoAgentError`."""
    wanted = pod.annotations.get(CR_NAME, "")
    if wanted:
        if wanted not in names:
            raise NoAgentError(f"there is no IgnitionSync {_brief(wanted)} in this namespace: create it first")
        return wanted
    if not names:
        raise NoAgentError(f"there is no IgnitionSync in this namespace: create one, and name it in {CR_NAME}")
    if len(names) > 1:
        listed = ", ".join(sorted(names)[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
        raise NoAgentError(f"this namespace has several IgnitionSyncs: name one of them in {CR_NAME}: {listed}")
    return names[0]


def inject(pod: NewPod, sync: SyncFacts, agent: AgentFacts) -> Injection:
    """Return the patch that adds the agent to a pod, after its init containers. Raises `NoAgentError`."""
    if pod.spec.os is not None and pod.spec.os.name == "windows":
        raise NoAgentError("the agent does not run on Windows")
    if MIRROR in pod.annotations:
        raise NoAgentError("a static pod has no token of a service account")
    if (present := _present(pod, agent)) is not None:
        return present
    gateway, mount = _data_mount(pod)
    files = _volumes(sync)
    taken = {volume.name for volume in pod.spec.volumes or ()} & {volume["name"] for volume in files}
    if taken:
        raise NoAgentError(f"the pod has a volume named {min(taken)}: rename it")
    security, warnings = _security(pod, gateway)
    if sync.paused:
        warnings.append(f"IgnitionSync {sync.name} is paused: the agent publishes nothing until it is resumed")
    if sync.needs_processes and not pod.spec.share_process_namespace:
        warnings.append(
            f"IgnitionSync {sync.name} has apply.type: Signal, which needs shareProcessNamespace: true in the pod"
        )
    container = {
        "name": AGENT,
        "image": image_of(sync.image, agent.image),
        "imagePullPolicy": sync.image.pull_policy,
        "command": ["syncline", "agent"],
        "restartPolicy": "Always",  # a native sidecar: it starts before the gateway, and stops after it
        "env": _environment(pod, sync, agent, mount),
        "startupProbe": _probe(pod, STARTUP_PATH, period=2, failures=1800, timeout=2),
        "livenessProbe": _probe(pod, HEALTH_PATH, period=20, failures=3, timeout=5),
        "resources": {
            "requests": sync.requests or ({} if sync.limits else DEFAULT_REQUESTS),
            "limits": sync.limits or ({} if sync.requests else DEFAULT_LIMITS),
        },
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(sync, mount),
    }
    patch = [
        *_appended("/spec/volumes", pod.spec.volumes is None, files),
        *_appended("/spec/initContainers", pod.spec.init_containers is None, [container]),
    ]
    if not pod.annotations.get(CR_NAME):
        patch += _annotated(pod, CR_NAME, sync.name)
    return Injection("injected", patch, tuple(warnings))


def image_of(wanted: AgentImage, own: str) -> str:
    """Return the image of the agent. Absent fields default to those of the operator's own image."""
    reference, _, own_digest = own.partition("@")
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:  # the colon is that of the port of a registry
        repository, tag = reference, ""
    chosen = wanted.repository or repository
    if wanted.digest:
        return f"{chosen}@{wanted.digest}"
    if wanted.tag:
        return f"{chosen}:{wanted.tag}"
    if own_digest and not wanted.repository:
        return f"{own}"
    return f"{chosen}:{tag}" if tag else chosen


def _present(pod: NewPod, agent: AgentFacts) -> Injection | None:
    """Return the patch for a pod that has a container of this name; None if it has none.

    Such a pod was reinvoked after another webhook, or was copied from a running pod. Changes by others stay; only the
    address and the certificates of the depot are updated.
    """
    if any(one.name == AGENT for one in pod.spec.containers or ()):
        raise NoAgentError(f"the pod has a container named {AGENT} of its own: rename it")
    for index, one in enumerate(pod.spec.init_containers or ()):
        if one.name != AGENT:
            continue
        if one.restart_policy != "Always" or not any(each.name == "SYNCLINE_DEPOT_URL" for each in one.env or ()):
            raise NoAgentError(f"the pod has an init container named {AGENT} of its own: rename it")
        current = {"SYNCLINE_DEPOT_URL": _literal(agent.depot_url), "SYNCLINE_CA": _literal(agent.ca)}
        patch = [
            {"op": "replace", "path": f"/spec/initContainers/{index}/env/{place}/value", "value": current[each.name]}
            for place, each in enumerate(one.env or ())
            if each.value != current.get(each.name, each.value)
        ]
        return Injection("present", patch)
    return None


def _data_mount(pod: NewPod) -> tuple[_PodContainer, _Mount]:
    """Return the container of the gateway, and its mount of the data folder."""
    volume, path = pod.annotations.get(DATA_VOLUME, ""), pod.annotations.get(DATA_PATH, "").rstrip("/")
    mounts = [(one, mount) for one in pod.spec.containers or () for mount in one.volume_mounts or ()]
    if volume or path:
        found = [
            (one, mount)
            for one, mount in mounts
            if (not volume or mount.name == volume) and (not path or mount.mount_path.rstrip("/") == path)
        ]
        named = " and ".join(
            f"{key}: {_brief(value)}" for key, value in ((DATA_VOLUME, volume), (DATA_PATH, path)) if value
        )
        if not found:
            raise NoAgentError(f"no container of the pod mounts what the annotations name ({named})")
    else:
        found = [pair for pair in mounts if pair[1].mount_path.rstrip("/") == DATA_FOLDER]
        found = found or [pair for name in DATA_VOLUMES for pair in mounts if pair[1].name == name]
        if not found:
            raise NoAgentError(
                f"no volume is mounted at {DATA_FOLDER}, or named {' or '.join(DATA_VOLUMES)}: name the volume with the"
                f" data folder of the gateway in {DATA_VOLUME}"
            )
    container, mount = found[0]
    if mount.sub_path_expr:
        raise NoAgentError(f"the mount of volume {_brief(mount.name)} has a subPathExpr: write a subPath instead")
    if not mount.mount_path.startswith("/"):
        raise NoAgentError(f"the mount of volume {_brief(mount.name)} has no absolute path")
    if f"{mount.mount_path.rstrip('/')}/".startswith(f"{_RUN}/"):
        raise NoAgentError(f"the path {_brief(mount.mount_path)} is that of the agent: mount the data folder elsewhere")
    _check_writable(pod, mount.name)
    return container, mount


def _check_writable(pod: NewPod, name: str) -> None:
    source = next((volume for volume in pod.spec.volumes or () if volume.name == name), None)
    if source is None:
        raise NoAgentError(f"the pod has no volume {_brief(name)}")
    claim = source.persistent_volume_claim
    fixed = (source.config_map, source.secret, source.downward_api, source.projected, source.image)
    if (claim is not None and claim.read_only) or any(one is not None for one in fixed):
        raise NoAgentError(f"the volume {_brief(name)} cannot be written to: use a volume that the agent can write")


def _security(pod: NewPod, gateway: _PodContainer) -> tuple[dict[str, Any], list[str]]:
    """Return the security context: restricted, with the user and the group of the gateway."""
    own, shared = gateway.security_context or _Security(), pod.spec.security_context or _Security()
    user = own.run_as_user if own.run_as_user is not None else shared.run_as_user
    group = own.run_as_group if own.run_as_group is not None else shared.run_as_group
    context: dict[str, Any] = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    warnings = []
    if user is None:
        warnings.append(
            f"container {_brief(gateway.name)} names no runAsUser: {AGENT} runs as the user of its image, and may be"
            " unable to write the files of the gateway"
        )
    else:
        context["runAsUser"] = user
    if user == _ROOT:
        context["runAsNonRoot"] = False
        warnings.append(f"container {_brief(gateway.name)} runs as root, and so does {AGENT}: set runAsUser")
    if group is not None:
        context["runAsGroup"] = group
    return context, warnings


def _environment(pod: NewPod, sync: SyncFacts, agent: AgentFacts, mount: _Mount) -> list[dict[str, str]]:
    values = {
        "SYNCLINE_DEPOT_URL": agent.depot_url,
        "SYNCLINE_CA": agent.ca,
        "SYNCLINE_TOKEN_FILE": f"{_RUN}/token/token",
        "SYNCLINE_DATA": mount.mount_path,
        "SYNCLINE_HEALTH_BIND": f":{_health_port(pod)}",
        "SYNCLINE_LOG_FORMAT": "json",
    }
    if sync.api_key is not None:
        values["SYNCLINE_API_KEY_FILE"] = f"{_RUN}/api-key/key"
    if sync.secrets:
        values["SYNCLINE_SECRETS_DIR"] = f"{_RUN}/secrets"
    return [{"name": name, "value": _literal(value)} for name, value in values.items()]


def _volumes(sync: SyncFacts) -> list[dict[str, Any]]:
    token = {"audience": AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "token"}
    volumes: list[dict[str, Any]] = [{"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}]
    if sync.api_key is not None:
        # Optional, because a missing Secret must not keep the pod from starting.
        secret = {
            "secretName": sync.api_key.secret,
            "optional": True,
            "defaultMode": _READABLE,
            "items": [{"key": sync.api_key.key, "path": "key"}],
        }
        volumes.append({"name": KEY_VOLUME, "secret": secret})
    if sync.secrets:
        sources = [
            {
                "secret": {
                    "name": one.secret,
                    "optional": True,
                    "items": [{"key": one.key, "path": f"{one.secret}/{one.key}"}],
                }
            }
            for one in sync.secrets
        ]
        volumes.append({"name": SECRETS_VOLUME, "projected": {"defaultMode": _READABLE, "sources": sources}})
    return volumes


def _mounts(sync: SyncFacts, mount: _Mount) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [{"name": mount.name, "mountPath": mount.mount_path}]
    if mount.sub_path:
        mounts[0]["subPath"] = mount.sub_path
    mounts.append({"name": TOKEN_VOLUME, "mountPath": f"{_RUN}/token", "readOnly": True})
    if sync.api_key is not None:
        mounts.append({"name": KEY_VOLUME, "mountPath": f"{_RUN}/api-key", "readOnly": True})
    if sync.secrets:
        mounts.append({"name": SECRETS_VOLUME, "mountPath": f"{_RUN}/secrets", "readOnly": True})
    return mounts


def _probe(pod: NewPod, path: str, *, period: int, failures: int, timeout: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": _health_port(pod)},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": timeout,
    }


def _health_port(pod: NewPod) -> int:
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    named = {
        number for one in containers for port in one.ports or () for number in (port.container_port, port.host_port)
    }
    return next(port for port in range(HEALTH_PORT, HEALTH_PORT + len(named) + 1) if port not in named)


def _appended(path: str, missing: bool, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if missing:
        return [{"op": "add", "path": path, "value": values}]
    return [{"op": "add", "path": f"{path}/-", "value": value} for value in values]


def _annotated(pod: NewPod, name: str, value: str) -> list[dict[str, Any]]:
    if pod.metadata.annotations is None:
        return [{"op": "add", "path": "/metadata/annotations", "value": {name: value}}]
    return [
        {"op": "add", "path": f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}", "value": value}
    ]


def _literal(value: str) -> str:
    """Return the value of a variable with escaped dollar signs, so that it refers to no other variable."""
    return value.replace("$", "$$")


def _brief(text: str) -> str:
    """Return a name of the pod for a warning, which the API server cuts off at 256 characters."""
    return text if len(text) <= 63 else f"{text[:60]}..."  # noqa: PLR2004 - the longest name of a volume
