"""The profile of a gateway: its files and settings, from the spec of its sync and the metadata of its pod.

A profile of `sync.profiles` is chosen by the pod's annotation `profile`. Without profiles, the mappings come from the
annotations `service-path`, `deployment-mode` and `tag-provider`, from `shared` and from `additionalFiles`.
"""

import re
from collections.abc import Iterator

from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import (
    CR_NAME,
    DEPLOYMENT_MODE,
    EXCLUDE_PATTERNS,
    GATEWAY_NAME,
    NAME_LABEL,
    POD_INDEX_LABEL,
    PROFILE,
    SERVICE_PATH,
    SYSTEM_NAME,
    SYSTEM_NAME_TEMPLATE,
    TAG_PROVIDER,
)
from syncline.api.ignition_files import DEFAULT_PROFILE, FilePatch, MappingType, SharedFiles, SyncMapping
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.gateway_plan import JsonPatch, SessionPolicy

MAX_POD_EXCLUDES = 50
"""The maximum number of globs in the annotation `exclude-patterns`."""
CORE = "config/resources/core"
EXTERNAL = "config/resources/external"
DEFAULT_TAG_PROVIDER = "default"

_ORDINAL = re.compile(r"-([0-9]{1,9})$").search
_INDEX = re.compile(r"[0-9]{1,9}").fullmatch
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*").fullmatch
_NAME = re.compile(r"[a-zA-Z0-9_]([-a-zA-Z0-9_. ]*[-a-zA-Z0-9_])?").fullmatch
_ANNOTATION_BYTES = 4096


class ProfileError(Exception):
    """A gateway has no valid profile. The reason is one CamelCase word; the message has the remedy."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class GatewayFacts(Struct, frozen=True, kw_only=True):
    """The facts about a gateway in the metadata of its pod. The users of the namespace write all of them."""

    name: str
    pod: str
    namespace: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    ordinal: int = 0
    shares_processes: bool = False
    """Whether the containers of the pod see each other's processes, and none of the node."""

    @property
    def sync(self) -> str:
        """The name of its sync; empty if the pod names none."""
        return self.annotations.get(CR_NAME, "")

    @property
    def service_path(self) -> str:
        """The folder of the gateway in the repository; empty if the pod names none."""
        return self.annotations.get(SERVICE_PATH, "")


class FileMapping(Struct, frozen=True, kw_only=True):
    """A file or folder of the repository and its place in the data folder. Both can be templates."""

    source: str
    destination: str
    type: MappingType | None = None
    required: bool = False
    template: bool = False
    patches: tuple[JsonPatch, ...] = ()


class ResolvedProfile(Struct, frozen=True, kw_only=True):
    """The mappings and settings of one gateway."""

    name: str = ""
    """The profile of the spec; empty if the mappings come from annotations."""
    mappings: tuple[FileMapping, ...] = ()
    exclude: tuple[str, ...] = ()
    """Globs of paths below the data folder."""
    variables: dict[str, str] = field(default_factory=dict)
    designer_sessions: SessionPolicy = "wait"
    dry_run: bool = False
    paused: bool = False
    system_name: str | None = None
    """A template of the system name; None if it is not changed."""
    is_ignition: bool = True
    """Whether the rules of Ignition for names and protected files apply."""
    unprotected: tuple[str, ...] = ()


def facts_of(metadata: ObjectMeta, *, shares_processes: bool = False) -> GatewayFacts:
    """Return the facts of a pod. The name of the gateway: its annotation, else its label, else the pod. Pure."""
    labels, annotations = metadata.labels, metadata.annotations
    return GatewayFacts(
        name=annotations.get(GATEWAY_NAME) or labels.get(NAME_LABEL) or metadata.name,
        pod=metadata.name,
        namespace=metadata.namespace,
        labels=dict(labels),
        annotations=dict(annotations),
        ordinal=_ordinal(metadata.name, labels.get(POD_INDEX_LABEL, "")),
        shares_processes=shares_processes,
    )


def resolve_profile(spec: IgnitionSyncSpec, facts: GatewayFacts) -> ResolvedProfile:
    """Return the profile of a gateway. Raises `ProfileError`. Pure."""
    _check_annotations(facts)
    name = facts.annotations.get(PROFILE, "")
    if name or spec.sync.profiles:
        return _from_profile(spec, facts, name or DEFAULT_PROFILE, named=bool(name))
    mappings = tuple(_from_annotations(spec, facts))
    if not mappings:
        raise ProfileError(
            "NoMappings",
            f"nothing is mapped to gateway {facts.name}: write a profile in spec.sync.profiles, or the annotation"
            f" {SERVICE_PATH} on its pod",
        )
    defaults = spec.sync.defaults
    return ResolvedProfile(
        mappings=mappings,
        exclude=_excludes(spec, facts, ()),
        variables=_variables(spec, {}),
        designer_sessions=defaults.designer_session_policy or spec.ignition.designer_session_policy,
        dry_run=defaults.dry_run,
        paused=defaults.paused,
        system_name=_system_name(spec, facts),
        is_ignition=spec.apply.type == "Ignition",
        unprotected=tuple(spec.unprotected),
    )


def _from_profile(spec: IgnitionSyncSpec, facts: GatewayFacts, name: str, *, named: bool) -> ResolvedProfile:
    profile, defaults = spec.sync.profiles.get(name), spec.sync.defaults
    if profile is None:
        known = ", ".join(sorted(spec.sync.profiles)) or "none"
        wanted = f"the annotation {PROFILE} of pod {facts.pod} names" if named else f"pod {facts.pod} has no annotation"
        without = "" if named else f" {PROFILE}, and its profile would be"
        raise ProfileError(
            "ProfileNotFound",
            f"{wanted}{without} {_shown(name)}, which spec.sync.profiles does not have: write one of its profiles"
            f" ({known}), or add it",
        )
    return ResolvedProfile(
        name=name,
        mappings=tuple(_from_spec(mapping) for mapping in profile.mappings),
        exclude=_excludes(spec, facts, profile.exclude_patterns),
        variables=_variables(spec, profile.vars),
        designer_sessions=profile.designer_session_policy
        or defaults.designer_session_policy
        or spec.ignition.designer_session_policy,
        dry_run=defaults.dry_run if profile.dry_run is None else profile.dry_run,
        paused=defaults.paused if profile.paused is None else profile.paused,
        system_name=_system_name(spec, facts),
        is_ignition=spec.apply.type == "Ignition",
        unprotected=tuple(spec.unprotected),
    )


def _from_spec(mapping: SyncMapping) -> FileMapping:
    return FileMapping(
        source=mapping.source,
        destination=mapping.destination,
        type=mapping.type,
        required=mapping.required,
        template=mapping.template,
        patches=tuple(_patch(patch) for patch in mapping.patches),
    )


def _patch(patch: FilePatch) -> JsonPatch:
    return JsonPatch(set=dict(patch.set), file=patch.file)


def _from_annotations(spec: IgnitionSyncSpec, facts: GatewayFacts) -> Iterator[FileMapping]:
    """Yield the mappings of a sync without profiles, in order: service, shared files, additional files."""
    if facts.service_path:
        yield from _service(facts.service_path.rstrip("/"), facts.annotations.get(DEPLOYMENT_MODE, ""))
    if spec.shared is not None:
        yield from _shared(spec.shared, facts)
    for one in spec.additional_files:
        yield FileMapping(source=one.source, destination=one.dest, type=one.type)


def _service(path: str, mode: str) -> Iterator[FileMapping]:
    # A mode is a separate collection, which the gateway itself puts on top of `core`.
    for folder in dict.fromkeys(("projects", EXTERNAL, CORE, *([f"config/resources/{mode}"] if mode else []))):
        yield FileMapping(source=f"{path}/{folder}", destination=folder, type="dir")


def _shared(shared: SharedFiles, facts: GatewayFacts) -> Iterator[FileMapping]:
    external, scripts, udts = shared.external_resources, shared.scripts, shared.udts
    if external is not None and external.enabled and external.source:
        yield FileMapping(source=external.source, destination=EXTERNAL, type="dir")
    if scripts is not None and scripts.enabled and scripts.source and scripts.dest_path:
        project = facts.service_path.rstrip("/").rpartition("/")[2]
        if project in ("", "."):
            raise ProfileError(
                "ProjectUnknown",
                f"shared.scripts goes to the project of gateway {facts.name}, and its pod does not name one: write the"
                f" annotation {SERVICE_PATH}, whose last name is the project, or use spec.sync.profiles",
            )
        yield FileMapping(source=scripts.source, destination=f"projects/{project}/{scripts.dest_path}", type="dir")
    if udts is not None and udts.enabled and udts.source:
        provider = facts.annotations.get(TAG_PROVIDER) or DEFAULT_TAG_PROVIDER
        place = f"{CORE}/ignition/tag-type-definition/{provider}"
        yield FileMapping(source=udts.source, destination=place, type="dir")


def _check_annotations(facts: GatewayFacts) -> None:
    for name in (PROFILE, SERVICE_PATH, GATEWAY_NAME, EXCLUDE_PATTERNS, SYSTEM_NAME, SYSTEM_NAME_TEMPLATE):
        if len(facts.annotations.get(name, "")) > _ANNOTATION_BYTES:
            raise ProfileError("InvalidAnnotation", f"the annotation {name} of pod {facts.pod} is too long")
    for name in (DEPLOYMENT_MODE, TAG_PROVIDER):
        value = facts.annotations.get(name, "")
        if value and not _NAME(value):
            raise ProfileError(
                "InvalidAnnotation",
                f"the annotation {name} of pod {facts.pod} is {_shown(value)}: write one name of letters, digits, -, _"
                " and .",
            )


def _excludes(spec: IgnitionSyncSpec, facts: GatewayFacts, more: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    written = facts.annotations.get(EXCLUDE_PATTERNS, "").split(",")
    of_pod = [pattern.strip() for pattern in written if pattern.strip()]
    if len(of_pod) > MAX_POD_EXCLUDES:
        raise ProfileError(
            "InvalidAnnotation",
            f"the annotation {EXCLUDE_PATTERNS} of pod {facts.pod} has more than {MAX_POD_EXCLUDES} globs: write fewer",
        )
    return tuple(dict.fromkeys((*spec.exclude_patterns, *spec.sync.defaults.exclude_patterns, *more, *of_pod)))


def _variables(spec: IgnitionSyncSpec, of_profile: dict[str, str]) -> dict[str, str]:
    site = {"siteNumber": spec.site_number} if spec.site_number else {}
    variables = {**site, **spec.sync.defaults.vars, **of_profile}
    for name in variables:
        if not _VARIABLE(name):
            raise ProfileError(
                "InvalidVariable",
                f"the variable {_shown(name)} cannot be used in templates: write letters, digits and _ only",
            )
    return variables


def _system_name(spec: IgnitionSyncSpec, facts: GatewayFacts) -> str | None:
    """Return the template of the system name. The annotations of a pod apply even without `normalize.systemName`."""
    if name := facts.annotations.get(SYSTEM_NAME, ""):
        return name
    if template := facts.annotations.get(SYSTEM_NAME_TEMPLATE, ""):
        return template
    return "{{ gateway.name }}" if spec.normalize.system_name else None


def _ordinal(pod: str, index: str) -> int:
    if _INDEX(index):
        return int(index)
    found = _ORDINAL(pod)
    return int(found[1]) if found else 0


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")  # noqa: PLR2004 - the longest text in a message
