"""What is nested too deeply is left out, as little as can be, and nobody takes what is left for the whole."""

import msgspec
import pytest

from syncline.engine.sync_object import RawSync
from syncline.kube.client import _decode, _List
from syncline.kube.nesting import MOST_LEVELS, TOO_DEEP, shallow
from syncline.kube.wire import ObjectDecoder

LEVELS = 9000
DEEP = b'{"a":' * LEVELS + b"1" + b"}" * LEVELS
NAMES = rb'"name":"deep","namespace":"m","labels":{"a":"}]\"[{"}'
BAD = b'{"metadata":{%s,"managedFields":[{"fieldsV1":%s}],"finalizers":["f"]},"spec":{"v":%s},"status":{"ok":1}}'
DEEP_OBJECT = BAD % (NAMES, DEEP, DEEP)
CUT_OBJECT = BAD.replace(b'{"v":%s}', b"%s") % (NAMES, TOO_DEEP, TOO_DEEP)
GOOD = b'{"metadata":{"name":"good","managedFields":[{"fieldsV1":{"f:a":{}}}]},"spec":{"a":[1,{"b":"]"}]}}'


@pytest.mark.parametrize("text", [GOOD, b"[]", b"1", b'"{"', b'{"a":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS])
def test_what_is_not_too_deep_stays_as_it_is(text: bytes) -> None:
    assert shallow(text, 1) == text


def test_of_an_object_the_whole_field_goes_and_of_its_metadata_only_what_is_too_deep() -> None:
    assert shallow(DEEP_OBJECT, 1) == CUT_OBJECT


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="more is closed"):
        shallow(b"}", 1)


def test_one_item_of_a_list_that_is_too_deep_hides_no_other() -> None:
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s,%s]}' % (GOOD, DEEP_OBJECT, GOOD)
    items = _decode(body, _List[msgspec.Raw]).items
    assert items is not None
    assert [bytes(item) for item in items] == [GOOD, CUT_OBJECT, GOOD]


def test_nobody_copies_from_a_list_what_was_left_out_of_it() -> None:
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % DEEP_OBJECT
    with pytest.raises(RecursionError):
        _decode(body, _List[dict[str, object]])


def test_a_line_of_a_watch_is_read_with_its_metadata_and_without_its_spec() -> None:
    reading = ObjectDecoder("configsyncs", RawSync).line(b'{"type":"MODIFIED","object":%s}' % DEEP_OBJECT)
    assert (reading.kind, reading.metadata.namespace, reading.metadata.name) == ("MODIFIED", "m", "deep")
    assert reading.object is not None
    assert reading.object.metadata.finalizers == ["f"]
    assert bytes(reading.object.spec) == TOO_DEEP
