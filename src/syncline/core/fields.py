"""Field ownership: reads `managedFields` of the API server without a schema.

`owned_fields` reduces the entries of an object to one tree: our fields, and the fields that other managers added next
to them. `lost_paths` returns our sent fields that are no longer ours, `manager_of` the manager of a field. So metadata
alone shows a change by others. Defaults, status, and fields that a webhook adds are not losses.

An empty value (`{}`, `[]`, false, 0 and "") counts like any other: it matters whether a volume is an `emptyDir: {}`,
and whether a token is mounted. But the server does not keep all of them. The answer to our own write shows which ones
it has not kept (`unkept`), and the marker records them.

In `managedFields`, a map that is owned as a whole and a map that others have emptied look the same. For kinds of
Kubernetes itself, their names distinguish them (`WHOLE_MAPS`). For a custom kind, the answer to our own write does, and
it is recorded too.

Limit: a field with a value that the server does not keep at all was never ours, and counts as lost.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import msgspec

from syncline.core.digest import short_digest
from syncline.core.keyed_elements import KeyedElements

Json = dict[str, Any]
Tree = dict[str, Any]
"""fieldsV1: `f:` is a field, `k:` an item by its keys, `v:` by its value, `i:` by its index; `{}` is the whole value.

Our trees have two additions: null is a field of others, and `?` at the top (`??` for a custom kind) means that `{}` may
be an emptied map.
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
_LONGEST_PATH = 1000
"""The maximum length of a path: below one long name, there can be many thousands of fields."""
CUSTOM_RECORD = _WHOLE
"""In the record of a custom kind: the record also names the maps that are owned whole."""
MAX_UNKEPT = 4096
"""The maximum size of the names of values that the server does not keep, on one object."""

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
"""Groups with known maps: those below are owned as a whole, all others field by field."""

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
        """The manager."""

    @property
    def operation(self) -> str:
        """Apply or Update."""

    @property
    def time(self) -> str:
        """The time, in whole seconds."""

    @property
    def subresource(self) -> str:
        """The subresource, such as status or scale; empty: the object itself."""

    @property
    def fields(self) -> bytes | msgspec.Raw:
        """The fields: `fieldsV1` as JSON."""


def owned_fields(entries: Sequence[ManagedFieldsEntry], group: str = "", manager: str = MANAGER) -> bytes:
    """Return the fields that the manager owns, for `lost_paths`. Equal trees are equal bytes."""
    ours = [entry for entry in entries if entry.manager == manager and not entry.subresource]
    others = [entry for entry in entries if entry.manager != manager and entry.subresource != _STATUS]
    # After a create, each map is listed as ours, even if all its content was removed. After an apply, only maps with
    # content are, and of a custom kind those inside a field without a schema.
    if group not in BUILT_IN_GROUPS:
        tree: Tree = {_CUSTOM: {}} if ours else {}
    else:
        tree = {_HOLLOW: {}} if ours and all(entry.operation == UPDATE for entry in ours) else {}
    for entry in ours:
        join(tree, _tree(entry.fields))
    for entry in others:
        _mark(tree, _tree(entry.fields))
    return msgspec.json.encode(tree)


def lost_paths(
    body: Mapping[str, Any], fields: bytes | Mapping[str, Any], record: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the sent paths, such as `spec.template.spec.containers[name=app].image`, that are not ours.

    `fields` is the result of `owned`, or the `fieldsV1` of an entry. In metadata, only labels and annotations count.
    `record` is the result of `unkept` for the answer to our last write: empty values that were not ours then are not
    lost. Null was never ours.
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
    """Return the sent empty values that are not ours by the answer to this write, for `lost_paths`.

    Items of a list are not distinguished. An empty list of items with keys is never listed as ours, so items of others
    in it are no loss. If the names are too long, the record is a digest of them.

    For a custom kind, the record also has the maps that are owned as a whole (`=`) and the lists that
    are owned by their items (`+`), to distinguish emptied ones from them later. By default it is the other way round.
    """
    return _folded(_names(_findings(body, fields)))


def recordable_fields(body: Mapping[str, Any]) -> set[str]:
    """Return all names that `unkept` can have for an object, except fields of others."""
    names: set[str] = set()
    _add_recordable(body, "", names)
    return names


def is_ours(fields: bytes, *way: str) -> bool:
    """Whether the server counts a field as ours. `fields` is the result of `owned`."""
    tree: Any = _decode_tree(fields)
    for name in way:
        tree = tree.get(f"f:{name}") if tree else None
    return tree is not None


def extra_paths(fields: bytes) -> tuple[str, ...]:
    """Return the paths that others have added next to ours, except metadata and status.

    `fields` is the result of `owned`.
    """
    tree = {element: below for element, below in _decode_tree(fields).items() if element not in _ELSEWHERE}
    return tuple(path.removeprefix(".") for path in _others(tree, ""))


def manager_of(entries: Iterable[ManagedFieldsEntry], path: str, manager: str = MANAGER) -> str:
    """Return the manager of the field at a path of `lost_paths`; else the last other writer; else an empty text."""
    others = [entry for entry in entries if entry.manager != manager and entry.subresource != _STATUS]
    having = [entry for entry in others if _has(_tree(entry.fields), path if path.startswith("[") else f".{path}")]
    # Times are whole seconds of one server, which sorts by them: of equal times, the later entry counts.
    return max(reversed(having or others), key=lambda entry: entry.time).manager if others else ""


def to_apply_patch(
    managed: Sequence[Mapping[str, Any]], uid: str, version: str, manager: str = MANAGER, *, alone: bool = False
) -> list[Json] | None:
    """Return the JSON patch that makes our created or patched fields applied fields; None if there are none.

    `managed` is `metadata.managedFields`. Without the patch, an apply does not remove a field that it no longer has,
    because the server counts it as a field of others. If the object has changed since, the server answers with a
    conflict. `alone`: the object was just made exactly as desired, so the fields of others are defaults of the server
    that were theirs before, and the server would count them as theirs forever.
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
    """Mark the fields of others next to ours."""
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
    """Return an element of a tree as a step of a readable path."""
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
    """Decode and encode JSON again: the server escapes more characters than necessary."""
    return msgspec.json.encode(msgspec.json.decode(text)).decode()


def _others(tree: Mapping[str, Any], here: str) -> list[str]:
    found: list[str] = []
    for element, below in tree.items():
        if element == _SELF:
            continue
        path = _extended(here, _step(element))
        if below is None:
            found.append(path)
        else:
            found += _others(below, path)
    return found


def _extended(path: str, step: str) -> str:
    """Return a readable path with one more step; a path that is too long to read is cut off."""
    if len(path) > _LONGEST_PATH:
        return path
    longer = path + step
    return longer if len(longer) <= _LONGEST_PATH else f"{longer[:_LONGEST_PATH]}…"


def _field_below(field: str, name: str) -> str:
    """Return the path in the schema of a field; a digest stands for one that is too long to be recorded."""
    longer = f"{field}.{name}" if field else name
    return longer if len(longer) <= _LONGEST_PATH else f"{_DIGEST}{short_digest(longer)}"


class _Place(NamedTuple):
    """A value of the sent object."""

    path: str = ""
    """The readable path."""
    field: str = ""
    """The path in the schema: the same for all items of a list."""

    def below(self, name: str) -> "_Place":
        return _Place(_extended(self.path, _named(name)), _field_below(self.field, name))

    def item(self, step: str) -> "_Place":
        return _Place(_extended(self.path, step), self.field)

    def finding(self, sign: str = "", value: Any = None, *, is_empty: bool = False) -> "_Finding":
        return _Finding(_extended(self.path, _only_way(value)), self.field, sign, is_empty)


class _Finding(NamedTuple):
    """A sent field that is not ours, or whose form in `managedFields` must be recorded."""

    path: str
    """The readable path."""
    field: str
    """The path in the schema."""
    sign: str = ""
    """No manager has the field (empty), or another one has it (`!`). Or it is ours: a map without its content (`=`), a
    list without its items (`-`) or a list by its items (`+`)."""
    is_empty: bool = False

    @property
    def name(self) -> str:
        return f"{self.sign}{self.field}"

    @property
    def is_recorded(self) -> bool:
        return self.is_empty or self.sign in (_WHOLE, _ITEMS)

    def is_lost(self, known: frozenset[str]) -> bool:
        match self.sign:
            case "=":
                return CUSTOM_RECORD in known and self.name not in known
            case "-":
                return f"{_ITEMS}{self.field}" in known
            case "+":
                return False
            case _:
                return not (self.is_empty and (self.name in known or f"{_TAKEN}{self.field}" in known))


def _findings(body: Mapping[str, Any], fields: bytes | Mapping[str, Any]) -> list[_Finding]:
    tree = _decode_tree(fields) if isinstance(fields, bytes) else fields
    sent = {name: value for name, value in body.items() if name not in _NOT_SENT}
    if metadata := sent.pop("metadata", None):
        sent["metadata"] = {name: metadata[name] for name in _SENT_METADATA if name in metadata}
    hollow = next((flag for flag in (_HOLLOW, _CUSTOM) if flag in tree), "")
    found = _in_map(sent, tree, _Place(), hollow=hollow)
    findings = [finding._replace(path=finding.path.removeprefix(".")) for finding in found]
    return [_Finding("", "", _WHOLE), *findings] if hollow == _CUSTOM else findings


def _names(findings: Iterable[_Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.name for finding in findings if finding.is_recorded}))


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if sum(map(len, names)) <= MAX_UNKEPT else (f"{_DIGEST}{short_digest(*names)}",)


def _in_map(sent: Mapping[str, Any], tree: Mapping[str, Any], here: _Place, *, hollow: str) -> list[_Finding]:
    found: list[_Finding] = []
    for name, value in sent.items():
        below = tree.get(f"f:{name}", False)
        if value is None:
            continue
        place = here.below(name)
        if not below and below != {}:
            sign = _TAKEN if below is None else ""
            found.append(place.finding(sign, value, is_empty=_is_empty(value)))
        elif isinstance(value, dict):
            if below or (hollow == _HOLLOW and name not in WHOLE_MAPS):
                found += _in_map(value, below, place, hollow=hollow)
            elif value and hollow == _CUSTOM:
                found.append(place.finding(_WHOLE, value))
        elif value and isinstance(value, list):
            if hollow == _CUSTOM:
                found.append(place.finding(_ITEMS if below else _BARE_LIST))
            if below:
                found += _in_list(value, below, place, hollow=hollow)
    return found


def _in_list(items: Sequence[Any], tree: Mapping[str, Any], here: _Place, *, hollow: str) -> list[_Finding]:
    elements = elements_of(items, tree)
    neighbour = next((element for element in tree if element[0] in "kv"), "i")
    found: list[_Finding] = []
    for index, element in enumerate(elements):
        below = tree[element] if element else None
        step = _step(element) if element else _step_to(items[index], index, neighbour)
        if below is None:
            found.append(here.item(step).finding())
        elif below and isinstance(items[index], dict):
            found += _in_map(items[index], below, here.item(step), hollow=hollow)
    return found


def elements_of(items: Sequence[Any], tree: Mapping[str, Any]) -> list[str]:
    """Return the element of each item, or an empty text; empty if the list is owned as a whole."""
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
    """Return the element of each item: first by all keys, then by the keys of the item.

    The server adds keys that have a default; in Kubernetes itself only the protocol has one.
    """
    known = KeyedElements(keyed)
    found = [known.fitting(item) for item in items]
    if not all(found):
        taken = set(found)
        for index, item in enumerate(items):
            if not found[index]:
                found[index] = known.fitting_filled(item, taken)
                taken.add(found[index])
    return found


def _step_to(item: Any, index: int, neighbour: str) -> str:
    """Return a name for an item without element: by the keys of a neighbour, its value, or its index."""
    if neighbour[0] == "v":
        return f"[{msgspec.json.encode(item).decode()}]"
    keys = msgspec.json.decode(neighbour[2:]) if neighbour[0] == "k" and isinstance(item, dict) else {}
    return (
        _by_keys({name: item[name] for name in keys if name in item})
        if not keys.keys().isdisjoint(item)
        else f"[{index}]"
    )


def _only_way(value: Any) -> str:
    """Follow maps with a single field: a lost map is best named by its only field."""
    way = ""
    while isinstance(value, dict) and len(value) == 1:
        ((name, value),) = value.items()
        way += _named(name)
    return way


def _is_empty(value: Any) -> bool:
    """Whether the value is empty, so that the server may drop it."""
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return all(map(_is_empty, value)) if isinstance(value, list) else not value


def _add_recordable(value: Any, field: str, names: set[str]) -> bool:
    """Add the names of the fields in a value; return whether the value is empty."""
    is_empty = not value
    if isinstance(value, dict):
        is_empty = True
        for name, inside in value.items():
            below = _field_below(field, name)
            is_empty_below = _add_recordable(inside, below, names)
            if inside is not None and is_empty_below:
                names.add(below)
            if inside and isinstance(inside, dict | list):
                names.add(f"{_WHOLE if isinstance(inside, dict) else _ITEMS}{below}")
            is_empty &= is_empty_below
    elif isinstance(value, list):
        is_empty = True
        for inside in value:
            is_empty &= _add_recordable(inside, field, names)
    return is_empty
