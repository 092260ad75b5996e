"""Decodes the lines of a watch and the items of a list, each once, into the caller's struct."""

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from syncline.kube.errors import BadAnswer, from_status, read_status
from syncline.kube.nesting import shallow

# An event has its object within itself.
_EVENT_LEVEL = 2
_INITIAL_END = b'"k8s.io/initial-events-end":"true"'


class Metadata(Protocol):
    """What is read of an object's metadata; `syncline.api.common.ObjectMeta` is one."""

    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def uid(self) -> str: ...  # noqa: D102
    @property
    def resource_version(self) -> str: ...  # noqa: D102


class HasMetadata(Protocol):
    """A msgspec struct for the objects of a kind. Give every field a default: bookmarks come in the same shape."""

    @property
    def metadata(self) -> Metadata: ...  # noqa: D102


W = TypeVar("W", bound=HasMetadata)


class DecodedObject(NamedTuple, Generic[W]):
    """What a line or an item says."""

    kind: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    metadata: Metadata
    object: W | None
    """None for an object that does not have the caller's shape. One such object must not hide all the others."""


class ObjectDecoder(Generic[W]):
    """Decodes for one resource and one struct."""

    def __init__(self, resource: str, shape: type[W]) -> None:
        self._resource = resource
        event: Any = _Event[shape]  # type: ignore[valid-type]
        self._decode_event = msgspec.json.Decoder(event).decode
        self._decode_item = msgspec.json.Decoder(shape).decode

    def line(self, line: bytes) -> DecodedObject[W]:
        """Read a line of a watch. Raises what an ERROR event says, and `BadAnswer` for what is no event."""
        try:
            try:
                event = self._decode_event(line)
            except RecursionError:
                line = shallow(line, _EVENT_LEVEL)
                event = self._decode_event(line)
            if event.type != "ERROR":
                return DecodedObject(event.type, event.object.metadata, event.object)
        except (ValueError, RecursionError):
            pass  # another shape: an error, a bookmark with nulls, an object that the caller cannot read, or rubbish
        try:
            bare = _decode_bare_event(line)
            if bare.type == "ERROR":
                raise from_status(read_status(bytes(bare.object)), verb="watch", resource=self._resource)
            return DecodedObject(bare.type, _decode_bare_object(bare.object).metadata, None)
        except (ValueError, RecursionError):
            raise BadAnswer("a line of the watch is not an event") from None

    def item(self, item: msgspec.Raw) -> DecodedObject[W]:
        """Read an item of a list. Raises `BadAnswer` for what is no object."""
        try:
            obj = self._decode_item(item)
            return DecodedObject("ADDED", obj.metadata, obj)
        except (ValueError, RecursionError):
            pass
        try:
            return DecodedObject("ADDED", _decode_bare_object(item).metadata, None)
        except (ValueError, RecursionError):
            raise BadAnswer("an item of the list is not an object") from None


def ends_initial_events(line: bytes) -> bool:
    """Tell whether this bookmark is the mark at the end of a streamed list."""
    # A bookmark holds nothing but metadata, so the text cannot come from anywhere else.
    return _INITIAL_END in line


class _Event(Struct, Generic[W]):
    type: str
    object: W


class _BareEvent(Struct):
    type: str
    object: msgspec.Raw


class _BareMeta(Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _BareObject(Struct):
    metadata: _BareMeta


_decode_bare_event = msgspec.json.Decoder(_BareEvent).decode
_decode_bare_object = msgspec.json.Decoder(_BareObject).decode
