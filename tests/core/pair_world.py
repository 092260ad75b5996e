"""An upstream object and its copy on two servers in memory, kept in agreement as pairs are: a pass can die anywhere.

The downstream server fills in defaults, and a webhook there changes an image and adds an option. Writes are the JSON
patches of the product and carry the version that was read; the base is on the copy, under our mark.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from tests.core.samples import WIDGET_CRD

from syncline.core.desired import from_manifest
from syncline.core.digest import DigestKey
from syncline.core.json_diff import diff_patch
from syncline.core.last_write import WriteTime, later_side
from syncline.core.marks import MarkKeys
from syncline.core.object_shapes import shape_from_schema
from syncline.core.objects import Desired, Observed, Target
from syncline.core.ownership import BASE, OWNER_LABEL, Owner, object_id_of
from syncline.core.pair_plan import PairPlan, base_of, decide, marker_digest, recorded, resolution_of, without_resolve
from syncline.core.pair_rules import PairRules, packed
from syncline.core.pair_values import PairSide, ValueReader, desired_manifest, without_defaults
from syncline.core.patching import json_patch
from syncline.core.placing import Placed
from syncline.core.plan import Action, Change, Policy, plan
from syncline.core.request_bodies import create_body, marks_of
from syncline.core.twoway import Base, Side
from syncline.core.upstream_objects import taken_down
from syncline.core.wire import ObjectWire, to_observed

Json = dict[str, Any]

KIND = "Widget.samples.example.com"
TARGET = Target("team-a", "sample", KIND)
SCHEMA = WIDGET_CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
KEY = DigestKey(b"a key")
KEYS = MarkKeys([b"k" * 32])
OWNER = Owner("WorkspaceSync", "ops", "team", "uid-of-the-sync", keys=KEYS)
READER = ValueReader(shape_from_schema(SCHEMA), KEY)
OBJECT_ID = object_id_of("cluster", TARGET)
NOW = 1_000_000.0


class PairRefusedError(Exception):
    """The server says no; nothing was changed."""


def as_it_is(body: Json) -> Json:
    return body


def defaulting(body: Json) -> Json:
    """Store an object as a server with defaults and a webhook does."""
    spec = body.setdefault("spec", {})
    spec.setdefault("grade", "good")
    for part in spec.get("parts", ()):
        part.setdefault("kind", "Ordinary")
        part.setdefault("weight", 1)
    spec.setdefault("options", {})["injected"] = "always"
    if "image" in spec and not spec["image"].startswith("mirror/"):
        spec["image"] = f"mirror/{spec['image']}"
    return body


class PairServer:
    """One object of one API server."""

    def __init__(self, name: Side, stores: Callable[[Json], Json]) -> None:
        self.name = name
        self.stores = stores
        self.object: Json | None = None
        self.written: WriteTime | None = None
        self._numbers = itertools.count(1)

    def create(self, body: Json, *, dry_run: bool = False) -> Json:
        if self.object is not None:
            raise PairRefusedError("AlreadyExists")
        made = copy.deepcopy(body)
        made["metadata"]["uid"] = f"{self.name}-{next(self._numbers)}"
        return self._put(made, dry_run=dry_run)

    def patch(self, changes: list[Json], uid: str, version: str, *, dry_run: bool = False) -> Json:
        live = self.live()
        if (live["metadata"]["uid"], live["metadata"]["resourceVersion"]) != (uid, version):
            raise PairRefusedError("Conflict")
        return self._put(json_patch(live, changes), dry_run=dry_run)

    def edit(self, change: Callable[[Json], object]) -> None:
        """Edit as a person does."""
        if self.object is not None:
            after = self.live()
            change(after)
            self._put(after)

    def live(self) -> Json:
        assert self.object is not None
        return copy.deepcopy(self.object)

    def delete(self) -> None:
        self.object = None

    def _put(self, made: Json, *, dry_run: bool = False) -> Json:
        stored = self.stores(copy.deepcopy(made))
        stored["metadata"]["resourceVersion"] = str(next(self._numbers))
        if not dry_run:
            self.object = stored
        return copy.deepcopy(stored)


class PairState:
    """A pair and the sync that keeps it in agreement."""

    def __init__(self, rules: PairRules) -> None:
        self.rules = rules
        self.up = PairServer("Upstream", as_it_is)
        self.down = PairServer("Downstream", defaulting)
        self.seen: list[Side] = []

    def copy(self) -> "PairState":
        return copy.deepcopy(self)

    def desired(self) -> Desired:
        manifest = taken_down(self.up.live())
        manifest["metadata"] = {**manifest["metadata"], "namespace": TARGET.namespace}
        return from_manifest(Placed(target=TARGET, manifest=manifest, origin="upstream"), (), KEY, "1")

    def observed(self) -> Observed:
        wire = msgspec.json.decode(msgspec.json.encode(self.down.live()), type=ObjectWire)
        return to_observed(wire, kind=KIND, marks=KEYS, key=KEY)

    def base(self) -> Base | None:
        desired, observed = self.desired(), self.observed()
        return base_of(desired, observed, self._planned(), OWNER, self._sides(desired, observed))

    def decide(self, later: Side | None = None) -> PairPlan:
        """Decide what flows where; both objects are there."""
        desired, observed = self.desired(), self.observed()
        sides = self._sides(desired, observed)
        base = base_of(desired, observed, self._planned(), OWNER, sides)
        if base is None:
            answered = self.down.stores(copy.deepcopy(desired_manifest(desired)))
            sides = sides[0], without_defaults(*sides, READER.downstream(answered, ()).digests)
        later = later or later_side(self.up.written, self.down.written, now=NOW, seen_order=self.seen)
        resolution = resolution_of(self.up.live(), self.down.live(), two_way=self.rules.two_way)
        return decide(desired, base, sides, self.rules, empty_map=READER.empty_map, later=later, resolution=resolution)

    def full_pass(self) -> list[str]:
        """Make a pass to its end and return its writes."""
        return list(self.passing())

    def passing(self) -> Iterator[str]:
        """Decide, then stop before every write with its name; going on executes it."""
        if self.up.object is None:
            return
        if self.down.object is None:
            yield from self._create()
            return
        plan_ = self.decide()
        live, observed, agreement = self.down.live(), self.observed(), plan_.agreement
        digests = plan_.up.digests
        if agreement.up:
            above = self.up.live()
            put = {path: plan_.down.values[path] for path in agreement.up.set}
            after = READER.changed(above, put, agreement.up.unset, live)
            meta = above["metadata"]
            yield "write upstream"
            self.up.patch(diff_patch(above, after), meta["uid"], meta["resourceVersion"])
            digests = READER.upstream(self.desired()).digests
        yield from self._write_down(plan_, live, observed, digests)

    def values(self, side: Side) -> Json:
        """Return the values of a side, by path."""
        server = self.up if side == "Upstream" else self.down
        return dict(READER.downstream(server.live(), ()).values) if server.object is not None else {}

    def _sides(self, desired: Desired, observed: Observed) -> tuple[PairSide, PairSide]:
        up = READER.upstream(desired)
        return up, READER.downstream(self.down.live(), {*up.digests, *(observed.base or ())})

    def _planned(self) -> Action:
        return plan(self.desired(), self.observed(), OWNER, OBJECT_ID, Policy(management="Adopt"))

    def _create(self) -> Iterator[str]:
        desired = self.desired()
        up = READER.upstream(desired).digests
        answer = self.down.create(
            create_body(desired, OWNER, OBJECT_ID, _change(desired, None), desired.content), dry_run=True
        )
        base = Base(up, READER.downstream(answer, up).digests)
        body = create_body(desired, OWNER, OBJECT_ID, _change(desired, base), desired.content)
        yield "create"
        self.down.create(body)

    def _write_down(self, plan_: PairPlan, live: Json, observed: Observed, digests: Any) -> Iterator[str]:
        desired, agreement, meta = self.desired(), plan_.agreement, live["metadata"]
        put = {path: plan_.up.values[path] for path in agreement.down.set}
        after = READER.changed(live, put, agreement.down.unset, desired_manifest(desired))
        if plan_.resolution.on_copy:
            without_resolve(after)
        down = plan_.down.stored
        if agreement.down:
            answer = self.down.patch(diff_patch(live, after), meta["uid"], meta["resourceVersion"], dry_run=True)
            down = READER.downstream(answer, plan_.known).digests
        base = agreement.base_after(up=digests, down=down)
        assert base is not None
        marked = recorded(plan_, desired, observed)
        change = _change(marked, base)
        after["metadata"]["labels"] = {**(after["metadata"].get("labels") or {}), OWNER_LABEL: OWNER.label}
        notes = after["metadata"].get("annotations") or {}
        after["metadata"]["annotations"] = {**notes, **marks_of(marked, OWNER, OBJECT_ID, change)}
        if diff_patch(live, after):
            yield "write downstream"
            self.down.patch(diff_patch(live, after), meta["uid"], meta["resourceVersion"])


def _change(desired: Desired, base: Base | None) -> Change:
    record = packed(base) if base is not None else None
    return Change(digest=marker_digest(desired, {}, READER), base=record)


def forget_base(state: PairState) -> None:
    """Take the base off the copy, as anybody can who may edit it."""
    state.down.edit(lambda live: (live["metadata"].get("annotations") or {}).pop(BASE, None))
