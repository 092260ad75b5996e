"""What can have happened at a target before a sync looks at it."""

import copy
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from tests.core.server import ApiServer, RefusedError
from tests.core.world import EARLIER, HOME, OTHER, OWNER, Sync, want

from syncline.core.keypolicies import KeyPolicy
from syncline.core.objects import Desired, Target
from syncline.core.ownership import BASE, DISABLED, MARKER, OWNER_LABEL, PRUNE, RECONCILE, Owner
from syncline.core.plan import Policy

ELSEWHERE = Target("team-z", "settings")
KEYS = ("a", "b", "c", "app.yaml")
LABELS = ("team", "example.com/tier")
ANNOTATIONS = ("note", "example.com/contact")
LONG = "a text that is longer than what is held of an annotation's value, so that its digest stands for it "

keys = st.sampled_from(KEYS)
values = st.sampled_from(("", "1", "2", "3", "ü\n"))
binary_values = st.sampled_from(("AA==", "AQ==", "Ag=="))
managements = st.sampled_from(("Sync", "Keep", "Adopt", "Overwrite"))
conflicts = st.sampled_from(("SourceWins", "Skip", "Merge"))
globs = st.sampled_from((*KEYS, "?", "*.yaml", "*"))
key_policies = st.lists(
    st.builds(KeyPolicy, st.lists(globs, min_size=1, max_size=2).map(tuple), conflicts), max_size=3
).map(tuple)
policies = st.builds(
    lambda management, conflict, keys: Policy(management=management, conflict=conflict, key_policies=keys),
    managements,
    conflicts,
    st.one_of(st.just(()), key_policies),
)
labels = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(("", "red", "blue")))
annotations = st.dictionaries(st.sampled_from(ANNOTATIONS), st.sampled_from(("", "red", LONG + "1", LONG + "2")))
rarely = st.integers(0, 3).map(lambda number: number == 3)


@st.composite
def contents(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Data and binaryData; a key is in one of them at most, as the API server demands."""
    data = draw(st.dictionaries(keys, values))
    binary = draw(st.dictionaries(keys, binary_values, max_size=2))
    return data, {key: value for key, value in binary.items() if key not in data}


@st.composite
def desireds(draw: st.DrawFn, target: Target = HOME) -> Desired:
    data, binary = draw(contents())
    return want(
        data,
        binary,
        target=target,
        immutable=draw(rarely),
        labels=draw(labels),
        annotations=draw(annotations),
        revision=draw(st.sampled_from(("1", "2"))),
    )


class Edit(Struct, frozen=True):
    """Somebody else's doing."""

    what: str
    key: str = ""
    value: Any = None


class Pass(Struct, frozen=True):
    """One look of a sync at the target."""

    owner: Owner
    policy: Policy
    desired: Desired


Story = list[Edit | Pass]

edits = st.one_of(
    st.builds(Edit, st.just("set data"), keys, values),
    st.builds(Edit, st.just("set binaryData"), keys, binary_values),
    st.builds(Edit, st.just("drop"), keys),
    st.builds(Edit, st.just("label"), st.sampled_from((*LABELS, "theirs")), st.sampled_from(("red", "green"))),
    st.builds(Edit, st.just("label"), st.just(OWNER_LABEL), st.sampled_from(("", "somebody", OWNER.label))),
    st.builds(Edit, st.just("unlabel"), st.sampled_from((*LABELS, OWNER_LABEL))),
    st.builds(Edit, st.just("annotate"), st.sampled_from((*ANNOTATIONS, "theirs")), st.sampled_from(("red", LONG))),
    st.builds(Edit, st.just("annotate"), st.sampled_from((MARKER, BASE)), st.sampled_from(("", "{}", "[1]", "?"))),
    st.builds(Edit, st.just("annotate"), st.sampled_from((PRUNE, RECONCILE)), st.sampled_from((DISABLED, "Enabled"))),
    st.builds(Edit, st.just("unannotate"), st.sampled_from((*ANNOTATIONS, MARKER, BASE, RECONCILE))),
    st.builds(Edit, st.sampled_from(("freeze", "strip all marks", "delete", "clone away and back"))),
    st.builds(Edit, st.just("make anew"), st.just(""), contents()),
)
strangers = st.builds(Edit, st.just("make anew"), st.just(""), contents())
passes = st.builds(Pass, st.sampled_from((OWNER, OWNER, EARLIER, OTHER)), policies, desireds())
# Most begin with an object that we made, or that was there before us.
stories = st.builds(
    lambda beginning, rest: [*beginning, *rest],
    st.one_of(st.tuples(), st.tuples(passes), st.tuples(strangers), st.tuples(strangers, passes)),
    st.lists(st.one_of(edits, passes), max_size=4),
)


def play(story: Story) -> ApiServer:
    """Return a server on which all this has happened at `HOME`, in this order."""
    server = ApiServer()
    for event in story:
        if isinstance(event, Pass):
            Sync(server, event.policy, event.owner).reconcile(event.desired)
        else:
            happen(server, HOME, event)
    return server


def happen(server: ApiServer, target: Target, edit: Edit) -> None:
    """Let somebody do something to the object; what the server refuses does not happen."""
    with suppress(RefusedError):
        if edit.what == "make anew":
            _make_anew(server, target, *edit.value)
        elif target in server.objects:
            _change(server, target, edit)


def _make_anew(server: ApiServer, target: Target, data: dict[str, str], binary: dict[str, str]) -> None:
    server.objects.pop(target, None)
    metadata = {"namespace": target.namespace, "name": target.name, "finalizers": ["example.com/theirs"]}
    server.create({"metadata": metadata, "data": data, "binaryData": binary})


def _change(server: ApiServer, target: Target, edit: Edit) -> None:
    made = copy.deepcopy(server.objects[target])
    match edit.what:
        case "delete":
            server.remove(target)
        case "clone away and back":
            _clone(server, target, made)
        case "freeze":
            server.edit(target, made | {"immutable": True})
        case "set data" | "set binaryData" | "drop":
            _change_content(made, edit)
            server.edit(target, made)
        case _:
            _change_metadata(made["metadata"], edit)
            server.edit(target, made)


def _change_content(made: dict[str, Any], edit: Edit) -> None:
    for part in ("data", "binaryData"):
        made.get(part, {}).pop(edit.key, None)
    if edit.what != "drop":
        made.setdefault(edit.what.removeprefix("set "), {})[edit.key] = edit.value


def _change_metadata(metadata: dict[str, Any], edit: Edit) -> None:
    match edit.what:
        case "label":
            metadata.setdefault("labels", {})[edit.key] = edit.value
        case "annotate":
            metadata.setdefault("annotations", {})[edit.key] = edit.value
        case "unlabel":
            metadata.get("labels", {}).pop(edit.key, None)
        case "unannotate":
            metadata.get("annotations", {}).pop(edit.key, None)
        case "strip all marks":
            metadata.pop("labels", None)
            metadata.pop("annotations", None)


def _clone(server: ApiServer, target: Target, made: dict[str, Any]) -> None:
    """Put in its place what a backup tool makes of another namespace's copy: it carries marks that name that place."""
    text = made["metadata"].get("annotations", {}).get(MARKER, "")
    if text:
        made["metadata"]["annotations"][MARKER] = text.replace(f"/{target.namespace}/", f"/{ELSEWHERE.namespace}/")
    server.remove(target)
    server.create(made)
