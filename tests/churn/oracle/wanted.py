"""What each sync wants, from its spec, the namespaces, the sources and the repository alone.

Written from the documentation, and on purpose without a line of the product: what both got wrong alike would be seen by
nobody.
"""

import base64
import copy
import fnmatch
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.churn.api import FAR, Json, Place, bare
from tests.churn.history import Git
from tests.churn.names import IGNORE, PREFIX
from tests.churn.snapshot import Snapshot


@dataclass(frozen=True)
class Want:
    """An object that a sync wants at a place."""

    place: Place
    fields: Json
    """What it should hold beside metadata."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: Place | None = None


@dataclass
class Wishes:
    """All that one sync wants."""

    ref: str
    sync: Json
    policy: str = "Sync"
    conflict: str = "SourceWins"
    two_way: bool = False
    suspended: bool = False
    prune: bool = True
    orphans: bool = False
    """Whether copies stay when their source is gone."""
    wants: dict[Place, Want] = field(default_factory=dict)
    """Where something can be written now."""
    closed: dict[Place, str] = field(default_factory=dict)
    """Targets in namespaces that are ignored, being deleted or missing."""
    absent: list[Place] = field(default_factory=list)
    """Named sources that do not exist."""
    waiting: set[Place] = field(default_factory=set)
    """Where copies of sources that do not exist would be."""
    problem: str = ""
    """Why nothing can be said of its targets; what was written stays."""

    @property
    def uid(self) -> str:
        """The sync's UID."""
        return str(self.sync["metadata"]["uid"])

    @property
    def active(self) -> bool:
        """Whether it acts at all."""
        return not self.suspended and "deletionTimestamp" not in self.sync["metadata"]

    @property
    def age(self) -> tuple[str, str]:
        """By this, of two syncs one is older."""
        return self.sync["metadata"]["creationTimestamp"], self.ref

    def claims(self) -> set[Place]:
        """Return every place that it lays claim to, with or without a source."""
        return self.wants.keys() | self.waiting if self.active else set()


def wishes_of(snapshot: Snapshot, git: Git) -> dict[str, Wishes]:
    """Return what every sync wants."""
    readers = {"ConfigMapSync": _config_map_sync, "ManifestSync": _manifest_sync}
    found = {}
    for ref, sync in snapshot.syncs.items():
        spec = sync["spec"]
        wishes = Wishes(
            ref,
            sync,
            policy=spec.get("resourceManagementPolicy", "Sync"),
            conflict=spec.get("conflictPolicy", "SourceWins"),
            two_way=spec.get("direction") == "Bidirectional",
            suspended=bool(spec.get("suspend")),
            prune=spec.get("prune", True),
            orphans=spec.get("sourceDeletionPolicy") == "Orphan",
        )
        kind = ref.partition("/")[0]
        if kind == "ConfigSync":
            _config_sync(wishes, spec, snapshot, git)
        else:
            readers[kind](wishes, spec, snapshot)
        found[ref] = wishes
    return found


def _config_map_sync(wishes: Wishes, spec: Json, snapshot: Snapshot) -> None:
    source: Place = ("ConfigMap", spec["sourceNamespace"], spec["configMapName"])
    name = spec.get("destinationName") or spec["configMapName"]
    names = [*spec.get("destinationNamespaces", [])]
    names += [spec["destinationNamespace"]] if spec.get("destinationNamespace") else []
    targets = _targets(names, spec.get("destinationNamespaceSelector"), snapshot)
    _add(wishes, snapshot, source, {namespace: (name, why) for namespace, why in targets.items()})


def _manifest_sync(wishes: Wishes, spec: Json, snapshot: Snapshot) -> None:
    home = wishes.sync["metadata"]["namespace"]
    template = spec.get("targetName") or "{{ source.name }}"
    for ref in spec.get("sourceRefs") or [spec["sourceRef"]]:
        namespace = ref.get("namespace") or home
        sources: Iterable[Place]
        if ref.get("name"):
            sources = [(ref["kind"], namespace, ref["name"])]
        else:
            sources = [
                place
                for place, body in snapshot.objects.items()
                if place[:2] == (ref["kind"], namespace)
                and selected(ref["selector"], body["metadata"].get("labels", {}))
            ]
        if ref["kind"] == "Widget" and not snapshot.widgets:
            wishes.problem = "KindNotServed"
        for source in sources:
            name = template.replace("{{ source.name }}", source[2])
            for prefix, where in _sites(spec["targets"]):
                targets = _targets(where.get("namespaces", []), where.get("namespaceSelector"), snapshot, prefix)
                named = {space: (name, why) for space, why in targets.items()}
                _add(wishes, snapshot, source, named, prefix=prefix)


def _sites(targets: Json) -> Iterator[tuple[str, Json]]:
    """Yield where a sync writes to, with what stands before the kind there."""
    if "inCluster" in targets:
        yield "", targets["inCluster"]
    for remote in targets.get("remoteClusters", []):
        yield f"{FAR}/", remote


def _add(
    wishes: Wishes,
    snapshot: Snapshot,
    source: Place,
    targets: Mapping[str, tuple[str, str]],
    *,
    prefix: str = "",
) -> None:
    body = snapshot.objects.get(source)
    spec = wishes.sync["spec"]
    if body is None and source not in wishes.absent:
        wishes.absent.append(source)
    for namespace, (name, why) in targets.items():
        place = (prefix + source[0], namespace, name)
        if place == source:
            continue
        if why:
            wishes.closed[place] = why
        elif body is None:
            wishes.waiting.add(place)
        else:
            wishes.wants[place] = _copy(body, place, source, spec)


def _copy(body: Json, place: Place, source: Place, spec: Json) -> Want:
    kept = {key: copy.deepcopy(value) for key, value in body.items() if key not in _IDENTITY}
    meta = body["metadata"]
    labels, annotations = travelling(meta.get("labels", {})), travelling(meta.get("annotations", {}))
    for part in ("data", "binaryData"):
        if part in kept and spec.get("keys"):
            kept[part] = _keyed(kept[part], spec["keys"])
    for transform in spec.get("transforms") or []:
        _transform(kept.setdefault("data", {}), transform, source, place)
    patch = (spec.get("patch") or {}).get("patchContent")
    if patch:
        change = json.loads(patch)
        more = change.pop("metadata", {})
        kept = merged(kept, change)
        labels = merged(labels, more.get("labels", {}))
        annotations = merged(annotations, more.get("annotations", {}))
    return Want(place, clean(place[0], kept), labels, annotations, source)


_IDENTITY = ("apiVersion", "kind", "metadata", "status")
_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity")


def clean(kind: str, fields: Json) -> Json:
    """Return what is compared of an object of a kind."""
    kind = bare(kind)
    if kind == "Service":
        spec = {key: value for key, value in fields.get("spec", {}).items() if key not in _ALLOCATED}
        return {"spec": spec}
    if kind in ("NetworkPolicy", "Widget"):
        return {"spec": fields.get("spec", {})}
    parts = ("data", "binaryData", "type") if kind == "Secret" else ("data", "binaryData")
    empty: Json = {"data": {}, "binaryData": {}}
    return {**empty, **{part: fields[part] for part in parts if fields.get(part)}, "immutable": fields.get("immutable")}


def travelling(values: Mapping[str, str]) -> dict[str, str]:
    """Return the labels or annotations that a copy gets; the stage has no other tools' labels."""
    return {key: value for key, value in values.items() if not key.startswith(PREFIX)}


def _keyed(values: Mapping[str, str], keys: Json) -> dict[str, str]:
    include, exclude, rename = keys.get("include") or ["*"], keys.get("exclude") or [], keys.get("rename") or {}
    return {
        rename.get(name, name): value
        for name, value in values.items()
        if any(fnmatch.fnmatchcase(name, glob) for glob in include)
        and not any(fnmatch.fnmatchcase(name, glob) for glob in exclude)
    }


def _transform(values: dict[str, str], transform: Json, source: Place, place: Place) -> None:
    """Carry out one transform; of templates, those that the stage uses."""
    glob = transform["key"]
    if "set" in transform and not set(glob) & {"*", "?"}:
        values[glob] = transform["set"]
    for key in [key for key in values if fnmatch.fnmatchcase(key, glob)]:
        if "set" in transform:
            values[key] = transform["set"]
        else:
            words = {"value": values[key], "source.name": source[2], "target.namespace": place[1]}
            values[key] = re.sub(r"\{\{ (\S+) \}\}", lambda found, words=words: words[found[1]], transform["template"])


def merged(value: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


def _targets(names: Iterable[str], selector: Json | None, snapshot: Snapshot, prefix: str = "") -> dict[str, str]:
    """Return the namespaces that are meant, each with why it cannot be written to, or nothing."""
    exact = {name for name in names if not set(name) & {"*", "?"}}
    globs = [name for name in names if set(name) & {"*", "?"}]
    found = {name: "missing" for name in exact if prefix + name not in snapshot.namespaces}
    for full, body in snapshot.namespaces.items():
        if full.startswith(f"{FAR}/") != bool(prefix):
            continue
        name = full.removeprefix(prefix)
        labels = body["metadata"].get("labels", {})
        guarded = name.startswith("kube-") or name == "syncline-system"
        meant = any(fnmatch.fnmatchcase(name, glob) for glob in globs) or (selector and selected(selector, labels))
        if name in exact or (meant and not guarded):
            found[name] = closed(body)
    return found


def closed(namespace: Json | None) -> str:
    """Say why no sync writes to a namespace, or nothing."""
    if namespace is None:
        return "missing"
    if namespace["metadata"].get("labels", {}).get(IGNORE) == "true":
        return "ignored"
    return "terminating" if "deletionTimestamp" in namespace["metadata"] else ""


def selected(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    tests = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    return all(
        tests[one["operator"]](one["key"], one.get("values", [])) for one in selector.get("matchExpressions") or []
    )


def _config_sync(wishes: Wishes, spec: Json, snapshot: Snapshot, git: Git) -> None:
    source = spec["source"]["git"]
    files = git.branches.get(source.get("revision", "main"))
    if files is None:
        wishes.problem = "RevisionNotFound"
        return
    manifests = list(_below(files, source.get("path", ".")))
    if not manifests:
        wishes.problem = "PathNotFound"
        return
    for manifest in manifests:
        meta = manifest["metadata"]
        place = (manifest["kind"], meta["namespace"], meta["name"])
        why = closed(snapshot.namespaces.get(place[1]))
        if why:
            wishes.closed[place] = why
            continue
        fields = clean(place[0], {key: value for key, value in manifest.items() if key not in _IDENTITY})
        wishes.wants[place] = Want(place, fields, meta.get("labels") or {}, meta.get("annotations") or {})


def _below(files: Mapping[str, str], path: str) -> Iterator[Json]:
    for name, text in sorted(files.items()):
        if path in (".", name) or name.startswith(f"{path}/"):
            yield json.loads(text)


def decoded(kind: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a ConfigMap or Secret as texts."""
    if bare(kind) != "Secret":
        return dict(values)
    return {key: base64.b64decode(value).decode() for key, value in values.items()}
