"""Decodes the lines of a watch and the items of a list, each once, into the caller's struct."""

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from syncline.kube.errors import BadAnswer, from_status, read_status
from syncline.kube.nesting import shallow

# The object is one level deeper in an event.
_EVENT_LEVEL = 2
_INITIAL_END = b'"k8s.io/initial-events-end":"true"'


class Metadata(Protocol):
    """The metadata that is read; `syncline.api.common.ObjectMeta` is one."""

    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def uid(self) -> str: ...  # noqa: D102
    @property
    def resource_version(self) -> str: ...  # noqa: D102


class HasMetadata(Protocol):
    """A msgspec struct for the objects of a kind. Every field needs a default, because bookmarks use it too."""

    @property
    def metadata(self) -> Metadata: ...  # noqa: D102


W = TypeVar("W", bound=HasMetadata)


class DecodedObject(NamedTuple, Generic[W]):
    """The content of a line or an item."""

    kind: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    metadata: Metadata
    object: W | None
    """None for an object that does not fit the caller's struct. It must not hide the other objects."""


class ObjectDecoder(Generic[W]):
    """Decodes for one resource and one struct."""

    def __init__(self, resource: str, shape: type[W]) -> None:
        self._resource = resource
        event: Any = _Event[shape]  # type: ignore[valid-type]
        self._decode_event = msgspec.json.Decoder(event).decode
        self._decode_item = msgspec.json.Decoder(shape).decode

    def line(self, line: bytes) -> DecodedObject[W]:
        """Decode a line of a watch. Raises the error of an ERROR event, and `BadAnswer` for other lines."""
        try:
            try:
                event = self._decode_event(line)
            except RecursionError:
                line = shallow(line, _EVENT_LEVEL)
                event = self._decode_event(line)
            if event.type != "ERROR":
                return DecodedObject(event.type, event.object.metadata, event.object)
        except (ValueError, RecursionError):
            pass  # another form: an error, a bookmark with nulls, an object that does not fit, or no JSON
        try:
            bare = _decode_bare_event(line)
            if bare.type == "ERROR":
                raise from_status(read_status(bytes(bare.object)), verb="watch", resource=self._resource)
            return DecodedObject(bare.type, _decode_bare_object(bare.object).metadata, None)
        except (ValueError, RecursionError):
            raise BadAnswer("a line of the watch is not an event") from None

    def item(self, item: msgspec.Raw) -> DecodedObject[W]:
        """Decode an item of a list. Raises `BadAnswer` for anything but an object."""
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
    """Whether this bookmark is the mark at the end of a streamed list."""
    # A bookmark has only metadata, so the text cannot be part of other content.
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


class BareObject(Struct):
    """An object of which only the identity and the version are read."""

    metadata: _BareMeta


_decode_bare_event = msgspec.json.Decoder(_BareEvent).decode
_decode_bare_object = msgspec.json.Decoder(BareObject).decode
