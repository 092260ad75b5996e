"""Specs, pods and commits of gateways, in few words."""

from typing import Any

import msgspec

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import CR_NAME, PREFIX
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.gateway_composition import compose_plan
from syncline.core.gateway_files import FileEntry, PlannedFiles, plan_files
from syncline.core.gateway_plan import GatewayPlan
from syncline.core.gateway_profiles import GatewayFacts, facts_of, resolve_profile

REF, COMMIT = "main", "c0ffee"
FILE, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"


def spec(**more: Any) -> IgnitionSyncSpec:
    """A spec as the operator reads it."""
    git = {"repo": "https://git.example.com/plant.git", "ref": "main"}
    gateway = {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}}
    return msgspec.convert({"git": git, "gateway": gateway, **more}, IgnitionSyncSpec)


def mapped(*mappings: dict[str, Any], **more: Any) -> IgnitionSyncSpec:
    """A spec with one profile."""
    return spec(sync={"profiles": {"default": {"mappings": list(mappings)}}}, **more)


def mapping(source: str, destination: str, **more: Any) -> dict[str, Any]:
    return {"source": source, "destination": destination, **more}


def pod(name: str = "site-gateway-0", labels: dict[str, str] | None = None, **annotations: str) -> GatewayFacts:
    """The facts of a pod of the sync `plant`; annotations without their prefix, with _ for -."""
    written = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = ObjectMeta(
        name=name, namespace="plant-1", labels=labels or {}, annotations={CR_NAME: "plant", **written}
    )
    return facts_of(metadata)


def tree(*paths: str, **modes: str) -> list[FileEntry]:
    """The listing of a commit; the id of a blob tells its path."""
    given = {**dict.fromkeys(paths, FILE), **modes}
    return sorted((FileEntry(path, f"blob:{path}", 10, mode) for path, mode in given.items()), key=lambda e: e.path)


def links(*paths: str) -> list[FileEntry]:
    return [FileEntry(path, f"blob:{path}", 10, LINK) for path in paths]


def planned(given: IgnitionSyncSpec, entries: list[FileEntry], facts: GatewayFacts | None = None) -> PlannedFiles:
    facts = facts or pod()
    ordered = sorted(entries, key=lambda entry: entry.path)
    return plan_files(resolve_profile(given, facts), facts, REF, COMMIT, ordered)


def composed(given: IgnitionSyncSpec, entries: list[FileEntry], facts: GatewayFacts | None = None) -> GatewayPlan:
    facts = facts or pod()
    profile = resolve_profile(given, facts)
    return compose_plan(given, profile, facts, planned(given, entries, facts), ref=REF, commit=COMMIT)


def placed(files: PlannedFiles) -> dict[str, str]:
    """Where the files of a commit go: places and sources."""
    return {file.path: file.blob.removeprefix("blob:") for file in files.files}


def reasons(files: PlannedFiles) -> list[str]:
    return [problem.reason for problem in files.problems]
