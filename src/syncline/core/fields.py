"""Field ownership: reads `managedFields` of the API server without a schema.

`owned_fields` reduces the entries of an object to one tree: our fields, and the fields that other managers added next
to them. `lost_paths` returns our sent fields that are no longer ours, `manager_of` the manager of a field. So a change
by others is seen from metadata alone, while defaults, status and what a webhook adds are nobody's loss.

A value that says nothing (`{}`, `[]`, false, 0 and "") counts like any other: it matters whether a volume is an
`emptyDir: {}`, and whether a token is mounted. But the server does not keep all of them. Which ones it does not keep
is no guess: the answer to our own write tells it (`unkept`), and is remembered with the object.

The server writes a map that is owned whole and one that somebody has emptied in the same way. For kinds of Kubernetes
itself the names tell them apart (`WHOLE_MAPS`). For a custom kind the answer to our own write does; it is recorded too.

Limits: a field that is not empty and that the server does not keep at all was never ours, and counts as lost.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import msgspec

from syncline.core.digest import short_digest

Json = dict[str, Any]
Tree = dict[str, Any]
"""fieldsV1: `f:` is a field, `k:` an item by its keys, `v:` by its value, `i:` by its place; `{}` is the whole thing.

Ours has two additions: null is somebody else's, and `?` at the top (`??` for a custom kind) says that `{}` may be a map
that was emptied.
"""

MANAGER = "syncline"
APPLY = "Apply"
UPDATE = "Update"

_SELF = "."
_HOLLOW = "?"
_CUSTOM = "??"
_STATUS = "status"
_ELSEWHERE = frozenset({"f:metadata", "f:status", _HOLLOW, _CUSTOM})
_NOT_SENT = frozenset({"apiVersion", "kind"})
_SENT_METADATA = ("labels", "annotations")
_TAKEN = "!"
_WHOLE = "="
_ITEMS = "+"
_BARE_LIST = "-"
_DIGEST = "#"
CUSTOM_RECORD = _WHOLE
"""In the record of a custom kind that we created: the record also names the maps that are owned whole."""
MAX_UNKEPT = 4096
"""How much room the names of values that the server does not keep may take on an object."""

BUILT_IN_GROUPS = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
"""Groups whose maps are known: those below are owned whole, all others field by field."""

WHOLE_MAPS = frozenset(
    {
        "claimRef",
        "configMapKeyRef",
        "controllerExpandSecretRef",
        "controllerPublishSecretRef",
        "dataSource",
        "fieldRef",
        "fileKeyRef",
        "involvedObject",
        "labelSelector",
        "matchConstraints",
        "matchResources",
        "namespaceSelector",
        "nodeExpandSecretRef",
        "nodePublishSecretRef",
        "nodeSelector",
        "nodeStageSecretRef",
        "nodeTopology",
        "objectSelector",
        "paramKind",
        "paramRef",
        "podSelector",
        "port",
        "preference",
        "regarding",
        "related",
        "required",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "resource",
        "resourceFieldRef",
        "roleRef",
        "scaleTargetRef",
        "scopeSelector",
        "secretKeyRef",
        "secretRef",
        "selector",
        "target",
        "targetRef",
    }
)

_decode_tree = msgspec.json.Decoder(dict[str, Any]).decode
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+").fullmatch


class ManagedFieldsEntry(Protocol):
    """One entry of `managedFields`."""

    @property
    def manager(self) -> str:
        """Who."""

    @property
    def operation(self) -> str:
        """Apply or Update."""

    @property
    def time(self) -> str:
        """When, to the second."""

    @property
    def subresource(self) -> str:
        """Through which part of the object, such as status or scale; empty: the object itself."""

    @property
    def fields(self) -> bytes | msgspec.Raw:
        """What: `fieldsV1` as JSON."""


def owned_fields(entries: Sequence[ManagedFieldsEntry], group: str = "", manager: str = MANAGER) -> bytes:
    """Return what the manager owns of an object of a kind of the group, for `lost_paths`; equal trees, equal bytes."""
    ours = [entry for entry in entries if entry.manager == manager and not entry.subresource]
    others = [entry for entry in entries if entry.manager != manager and entry.subresource != _STATUS]
    # What a create leaves says of each map that it is ours, also when everything in it was taken away. After an apply
    # only what has content is listed.
    hollow = bool(ours) and all(entry.operation == UPDATE for entry in ours)
    tree: Tree = {_HOLLOW if group in BUILT_IN_GROUPS else _CUSTOM: {}} if hollow else {}
    for entry in ours:
        join(tree, _tree(entry.fields))
    for entry in others:
        _mark(tree, _tree(entry.fields))
    return msgspec.json.encode(tree)


def lost_paths(
    body: Mapping[str, Any], fields: bytes | Mapping[str, Any], record: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the paths of what was sent, such as `spec.template.spec.containers[name=app].image`, that are not ours.

    `fields` is what `owned` returned, or the `fieldsV1` of an entry as it came. Of metadata, labels and annotations
    count. `record` is what `unkept` returned for the answer to our last write: empty values that were not ours then are
    not lost. Null was never ours.
    """
    findings = _findings(body, fields)
    names = _names(findings)
    if _folded(names) == record:
        known = frozenset(names)
    elif record and record[0].startswith(_DIGEST):
        # Which of them has changed is not known, so that any may be lost. Those that certainly are come first.
        unsure = sorted(findings, key=lambda finding: finding.is_recorded or finding.sign == _BARE_LIST)
        return tuple(finding.path for finding in unsure if finding.path and finding.sign != _ITEMS)
    else:
        known = frozenset(record)
    return tuple(finding.path for finding in findings if finding.is_lost(known))


def unkept(body: Mapping[str, Any], fields: bytes | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the empty values of what was sent that are not ours by the answer to that very write, for `lost_paths`.

    Items of a list are not told apart. Of a list of items with keys that was sent empty, the server never says that it
    is ours: items of others in it are no loss. Where the names would take much room, there is but a digest of them.

    Of a custom kind that we created, there are also the maps that are owned whole (`=`) and the lists that are owned by
    their items (`+`): only so can one that was emptied be told from them later. By default it is the other way round.
    """
    return _folded(_names(_findings(body, fields)))


def recordable_fields(body: Mapping[str, Any]) -> set[str]:
    """Return all names that `unkept` can have for an object, but for those of fields that others have."""
    return {name for field, value in _fields_in(body, ()) for name in _record_names(".".join(field), value)}


def is_ours(fields: bytes, *way: str) -> bool:
    """Tell whether the server counts a field as ours. `fields` is what `owned` returned."""
    tree: Any = _decode_tree(fields)
    for name in way:
        tree = tree.get(f"f:{name}") if tree else None
    return tree is not None


def extra_paths(fields: bytes) -> tuple[str, ...]:
    """Return the paths of what others have added beside what is ours, but for metadata and status.

    `fields` is what `owned` returned.
    """
    tree = {element: below for element, below in _decode_tree(fields).items() if element not in _ELSEWHERE}
    return tuple(path.removeprefix(".") for path in _others(tree))


def manager_of(entries: Iterable[ManagedFieldsEntry], path: str, manager: str = MANAGER) -> str:
    """Name who has the field at a path of `lost_paths`; where nobody has it, who else wrote last; or nobody: empty."""
    others = [entry for entry in entries if entry.manager != manager and entry.subresource != _STATUS]
    having = [entry for entry in others if _has(_tree(entry.fields), path if path.startswith("[") else f".{path}")]
    # Times are whole seconds of one server, and the server sorts by them: of equals the later entry.
    return max(reversed(having or others), key=lambda entry: entry.time).manager if others else ""


def to_apply_patch(
    managed: Sequence[Mapping[str, Any]], uid: str, version: str, manager: str = MANAGER, *, alone: bool = False
) -> list[Json] | None:
    """Return the JSON patch that makes what we own by a create or patch ours by apply; None when nothing is to do.

    `managed` is `metadata.managedFields` as it came. Without the patch, an apply that no longer has a field leaves the
    field behind: the server holds it for somebody else's. An object that has changed since is not touched: the server
    answers with a conflict. `alone` says that the object was just made exactly what we want: what others still hold
    are defaults of the server that were theirs before, and the server would count them as theirs for good.
    """
    whole = [index for index, entry in enumerate(managed) if not entry.get("subresource")]
    mine = [index for index in whole if managed[index]["manager"] == manager]
    updates = [index for index in mine if managed[index]["operation"] == UPDATE]
    others = [index for index in whole if index not in mine] if alone and mine else []
    if not updates and not others:
        return None
    kept = next((index for index in mine if managed[index]["operation"] == APPLY), mine[-1])
    place = "/metadata/managedFields"
    patch: list[Json] = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": f"{place}/{kept}/operation", "value": APPLY},
    ]
    if len(mine) > 1:
        union: Tree = {}
        for index in mine:
            join(union, deepcopy(managed[index].get("fieldsV1") or {}))
        patch.append({"op": "replace", "path": f"{place}/{kept}/fieldsV1", "value": union})
    unneeded = sorted({*updates, *others} - {kept}, reverse=True)
    return patch + [{"op": "remove", "path": f"{place}/{index}"} for index in unneeded]


def _tree(fields: bytes | msgspec.Raw) -> Tree:
    raw = bytes(fields)
    return _decode_tree(raw) if raw else {}


def join(into: Tree, tree: Tree) -> None:
    """Add the fields of a tree to another one; the tree itself may become a part of it."""
    for element, below in tree.items():
        known = into.get(element)
        if known is None:
            into[element] = below
        elif below and known:
            join(known, below)
        elif below or known:  # in one the thing alone, in the other what is inside: both
            into[element] = {_SELF: {}, **known, **below}


def _mark(ours: Tree, theirs: Tree) -> None:
    """Note what is theirs beside what is ours."""
    for element, below in theirs.items():
        if element == _SELF:
            continue
        if element not in ours:
            ours[element] = None
        elif below and ours[element] is not None:
            _mark(ours[element], below)


def _has(tree: Tree, path: str) -> bool:
    for element, below in tree.items():
        if element == _SELF:
            continue
        step = _step(element)
        if path == step:
            return True
        if path.startswith((f"{step}.", f"{step}[")) and (not below or _has(below, path[len(step) :])):
            return True
    return False


def _step(element: str) -> str:
    """Write an element of a tree as a step of a path that people read."""
    match element[0]:
        case "f":
            return _named(element[2:])
        case "k":
            return _by_keys(msgspec.json.decode(element[2:]))
        case "v":
            return f"[{_plain(element[2:])}]"
        case _:
            return f"[{element[2:]}]"


def _named(name: str) -> str:
    return f".{name}" if _PLAIN_NAME(name) else f"[{name}]"


def _by_keys(keys: Mapping[str, Any]) -> str:
    return f"[{','.join(f'{name}={value}' for name, value in keys.items())}]"


def _plain(text: str) -> str:
    """Read and write JSON once more: the server escapes more than it has to."""
    return msgspec.json.encode(msgspec.json.decode(text)).decode()


def _others(tree: Mapping[str, Any]) -> Iterator[str]:
    for element, below in tree.items():
        if element == _SELF:
            continue
        if below is None:
            yield _step(element)
        else:
            yield from (_step(element) + rest for rest in _others(below))


class _Finding(NamedTuple):
    """A field that was sent and is not ours, or of which it must be known how the server counts it."""

    path: str
    """As people read it."""
    field: tuple[str, ...]
    """As the schema has it: the same for all items of a list."""
    sign: str = ""
    """Nobody has the field (empty), or somebody else has it (`!`). Or it is ours: as a map without its content (`=`), a
    list without its items (`-`) or a list by its items (`+`)."""
    is_empty: bool = False

    @property
    def name(self) -> str:
        return f"{self.sign}{'.'.join(self.field)}"

    @property
    def is_recorded(self) -> bool:
        return self.is_empty or self.sign in (_WHOLE, _ITEMS)

    def is_lost(self, known: frozenset[str]) -> bool:
        match self.sign:
            case "=":
                return CUSTOM_RECORD in known and self.name not in known
            case "-":
                return f"{_ITEMS}{'.'.join(self.field)}" in known
            case "+":
                return False
            case _:
                return not (self.is_empty and (self.name in known or f"{_TAKEN}{'.'.join(self.field)}" in known))

    def below(self, step: str, *field: str) -> "_Finding":
        return self._replace(path=step + self.path, field=(*field, *self.field))


def _findings(body: Mapping[str, Any], fields: bytes | Mapping[str, Any]) -> list[_Finding]:
    tree = _decode_tree(fields) if isinstance(fields, bytes) else fields
    sent = {name: value for name, value in body.items() if name not in _NOT_SENT}
    if metadata := sent.pop("metadata", None):
        sent["metadata"] = {name: metadata[name] for name in _SENT_METADATA if name in metadata}
    hollow = next((flag for flag in (_HOLLOW, _CUSTOM) if flag in tree), "")
    findings = [finding._replace(path=finding.path.removeprefix(".")) for finding in _in_map(sent, tree, hollow=hollow)]
    return [_Finding("", (), _WHOLE), *findings] if hollow == _CUSTOM else findings


def _names(findings: Iterable[_Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.name for finding in findings if finding.is_recorded}))


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if sum(map(len, names)) <= MAX_UNKEPT else (f"{_DIGEST}{short_digest(*names)}",)


def _in_map(sent: Mapping[str, Any], tree: Mapping[str, Any], *, hollow: str) -> list[_Finding]:
    """Return the ways from here to what is found."""
    found: list[_Finding] = []
    for name, value in sent.items():
        below = tree.get(f"f:{name}", False)
        if value is None:
            continue
        if not below and below != {}:
            sign = _TAKEN if below is None else ""
            found.append(_Finding(_named(name) + _only_way(value), (name,), sign, _is_empty(value)))
        elif isinstance(value, dict):
            if below or (hollow == _HOLLOW and name not in WHOLE_MAPS):
                found += [finding.below(_named(name), name) for finding in _in_map(value, below, hollow=hollow)]
            elif value and hollow == _CUSTOM:
                found.append(_Finding(_named(name) + _only_way(value), (name,), _WHOLE))
        elif value and isinstance(value, list):
            if hollow == _CUSTOM:
                found.append(_Finding(_named(name), (name,), _ITEMS if below else _BARE_LIST))
            if below:
                found += [finding.below(_named(name), name) for finding in _in_list(value, below, hollow=hollow)]
    return found


def _in_list(items: Sequence[Any], tree: Mapping[str, Any], *, hollow: str) -> list[_Finding]:
    elements = elements_of(items, tree)
    found: list[_Finding] = []
    for index, element in enumerate(elements):
        below = tree[element] if element else None
        if below is None:
            found.append(_Finding(_step(element) if element else _step_to(items[index], index, tree), ()))
        elif below and isinstance(items[index], dict):
            found += [finding.below(_step(element)) for finding in _in_map(items[index], below, hollow=hollow)]
    return found


def elements_of(items: Sequence[Any], tree: Mapping[str, Any]) -> list[str]:
    """Return the element of each item, empty where there is none; nothing at all where the list is owned whole."""
    match {element[0] for element in tree} - {_SELF}:
        case kinds if "k" in kinds:
            return _by_key(
                items, [(element, msgspec.json.decode(element[2:])) for element in tree if element[0] == "k"]
            )
        case kinds if "v" in kinds:
            valued = {_plain(element[2:]): element for element in tree if element[0] == "v"}
            return [valued.get(msgspec.json.encode(item).decode(), "") for item in items]
        case kinds if "i" in kinds:
            return [element if (element := f"i:{index}") in tree else "" for index in range(len(items))]
    return []


def _by_key(items: Sequence[Any], keyed: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the element of each item: first by all keys, then by those that the item has.

    The server fills in keys that have a default; of those of Kubernetes itself that is the protocol alone.
    """
    found = [next((element for element, keys in keyed if _fits(item, keys)), "") for item in items]
    if not all(found):
        taken = set(found)
        for index, item in enumerate(items):
            if not found[index]:
                fitting = (element for element, keys in keyed if element not in taken and _fits_filled(item, keys))
                found[index] = next(fitting, "")
                taken.add(found[index])
    return found


def _fits(item: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(item, dict) and keys.items() <= item.items()


def _fits_filled(item: Any, keys: Mapping[str, Any]) -> bool:
    if not isinstance(item, dict) or keys.keys().isdisjoint(item):
        return False
    return _fits({**keys, **({"protocol": "TCP"} if "protocol" in keys else {}), **item}, keys)


def _step_to(item: Any, index: int, tree: Mapping[str, Any]) -> str:
    """Name an item that has no element: by the keys of its neighbours, by its value, or by its place."""
    neighbour = next((element for element in tree if element[0] in "kv"), "i")
    if neighbour[0] == "v":
        return f"[{msgspec.json.encode(item).decode()}]"
    keys = msgspec.json.decode(neighbour[2:]) if neighbour[0] == "k" and isinstance(item, dict) else {}
    return (
        _by_keys({name: item[name] for name in keys if name in item})
        if not keys.keys().isdisjoint(item)
        else f"[{index}]"
    )


def _only_way(value: Any) -> str:
    """Go on while there is but one way: a map that was lost with its only field is best named by it."""
    way = ""
    while isinstance(value, dict) and len(value) == 1:
        ((name, value),) = value.items()
        way += _named(name)
    return way


def _is_empty(value: Any) -> bool:
    """Whether the value says nothing, so that the server may leave it out."""
    return not any(_leaves(value))


def _fields_in(value: Any, field: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield (*field, name), item
            yield from _fields_in(item, (*field, name))
    elif isinstance(value, list):
        for item in value:
            yield from _fields_in(item, field)


def _record_names(name: str, value: Any) -> Iterator[str]:
    if value is not None and _is_empty(value):
        yield name
    if value and isinstance(value, dict | list):
        yield f"{_WHOLE if isinstance(value, dict) else _ITEMS}{name}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
