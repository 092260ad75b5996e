"""One of several users who work at the same time."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.churn.api import (
    MERGE,
    Admin,
    Json,
    Place,
    Refused,
    Unsure,
    api_version,
    bare,
    collection_of,
    is_far,
    path_of,
)
from tests.churn.history import History
from tests.churn.slots import Slot

from syncline.testing.gitserver import Repository

Operation = Callable[["Actor"], None]


@dataclass
class Stage:
    """What all users share."""

    admin: Admin
    history: History
    slots: tuple[Slot, ...]
    repository: Repository | None
    far: Admin | None = None
    """The second cluster, if there is one."""
    credential: str = ""
    """The kubeconfig by which syncs reach it."""
    quiet: threading.Event = field(default_factory=threading.Event)
    """Set when operations must come to an end: long ones cut themselves short."""


class Actor:
    """A user, with luck of their own."""

    def __init__(self, stage: Stage, rng: Random) -> None:
        self.stage = stage
        self.rng = rng
        self.admin = stage.admin
        self.history = stage.history

    def reach(self, kind: str) -> Admin:
        """Return the cluster that objects of a kind are in."""
        if is_far(kind):
            assert self.stage.far is not None
            return self.stage.far
        return self.admin

    def read(self, place: Place) -> Json | None:
        """Read an object of either cluster."""
        return self.reach(place[0]).read(place)

    def text(self) -> str:
        """Return a value that was never there before."""
        return f"v{self.rng.getrandbits(48):012x}"

    def chance(self, share: float) -> bool:
        """Throw a die."""
        return self.rng.random() < share

    def pause(self, least: float, most: float) -> None:
        """Wait a moment, unless operations must end."""
        self.stage.quiet.wait(self.rng.uniform(least, most))

    def rest(self, seconds: float) -> None:
        """Wait a moment, also when operations must end: what was begun needs its end."""
        time.sleep(seconds)

    def create(self, kind: str, namespace: str, body: Json) -> Json | None:
        """Create an object; None where that was refused. What is not known is looked up."""
        name = body["metadata"]["name"]
        full = {"apiVersion": api_version(kind), "kind": bare(kind), **body}
        try:
            return self.reach(kind).send("POST", collection_of(kind, namespace), full)
        except Refused as error:
            if error.status in (404, 409) or (error.status == 403 and "being terminated" in str(error)):
                return None
            raise
        except Unsure:
            self.settle()
            return self.read((kind, namespace, name))

    def patch(self, place: Place, body: object, kind: str = MERGE) -> Json | None:
        """Patch an object; None where there is none, or the server refused. What is not known is tried again."""
        while True:
            try:
                return self.reach(place[0]).send("PATCH", path_of(place), body, kind)
            except Refused as error:
                if error.status in (404, 409, 422):
                    return None
                raise
            except Unsure:
                self.settle()

    def delete(self, place: Place, *, uid: str = "") -> bool:
        """Delete an object; whether there was one. What is not known is tried again."""
        body = {"preconditions": {"uid": uid}} if uid else None
        while True:
            try:
                self.reach(place[0]).send("DELETE", path_of(place), body)
            except Refused as error:
                if error.status in (404, 409):
                    return False
                raise
            except Unsure:
                self.settle()
            else:
                return True

    def settle(self) -> None:
        """Wait until a request that was broken off can no longer be carried out."""
        time.sleep(1.0)
        self.admin.get("/readyz/ping")
        time.sleep(1.0)
