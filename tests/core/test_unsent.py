"""Which fields go from an object when they are ours and no longer sent."""

from copy import deepcopy
from typing import Any

import pytest

from syncline.core.unsent import drop_unsent

Json = dict[str, Any]
A, B = 'k:{"name":"a"}', 'k:{"name":"b"}'


@pytest.mark.parametrize(
    ("live", "ours", "sent", "left"),
    [
        ({"x": 1, "y": 2}, {"f:x": {}, "f:y": {}}, {"x": 1}, {"x": 1}),
        ({"x": 1, "y": 2}, {"f:x": {}}, {"x": 1}, {"x": 1, "y": 2}),
        ({"x": 1, "y": 2}, {"f:x": {}, "f:y": None}, {"x": 1}, {"x": 1, "y": 2}),
        ({"m": {"x": 1, "y": 2}}, {"f:m": {"f:x": {}, "f:y": {}}}, {"m": {"x": 1}}, {"m": {"x": 1}}),
        ({"m": {"x": 1}}, {"f:m": {"f:x": {}}}, {}, {}),
        ({"m": {"x": 1, "y": 2}}, {"f:m": {"f:x": {}, "f:y": None}}, {}, {"m": {"y": 2}}),
        (
            {"l": [{"name": "a"}, {"name": "b"}]},
            {"f:l": {A: {".": {}, "f:name": {}}, B: {".": {}, "f:name": {}}}},
            {"l": [{"name": "b"}]},
            {"l": [{"name": "b"}]},
        ),
        (
            {"l": [{"name": "a"}, {"name": "b"}]},
            {"f:l": {A: {".": {}, "f:name": {}}, B: None}},
            {},
            {"l": [{"name": "b"}]},
        ),
        (
            {"l": [{"name": "a", "x": 1, "y": 2}]},
            {"f:l": {A: {".": {}, "f:name": {}, "f:x": {}, "f:y": None}}},
            {"l": []},
            {"l": [{"name": "a", "y": 2}]},
        ),
        (
            {"l": [{"name": "a", "x": 1, "y": 2}]},
            {"f:l": {A: {".": {}, "f:name": {}, "f:x": {}, "f:y": {}}}},
            {"l": [{"name": "a", "y": 2}]},
            {"l": [{"name": "a", "y": 2}]},
        ),
        ({"l": ["a", "b"]}, {"f:l": {'v:"a"': {}, 'v:"b"': {}}}, {"l": ["b"]}, {"l": ["b"]}),
        ({"l": ["a", "b"]}, {"f:l": {'v:"a"': {}, 'v:"b"': None}}, {}, {"l": ["b"]}),
        ({"l": [1, 2]}, {"f:l": {}}, {"l": [1]}, {"l": [1, 2]}),
        ({"x": 1}, {"f:gone": {}, "f:x": {}, "?": {}}, {"x": 1}, {"x": 1}),
    ],
    ids=[
        *("a field", "not ours", "theirs", "in a map", "a whole map", "a map that others share"),
        *("an item", "an item of a list that others share", "an item that others share", "a field of an item"),
        *("a value of a set", "a value of a set that others share", "a list that is owned whole", "nothing"),
    ],
)
def test_what_is_ours_and_no_longer_sent_goes(live: Json, ours: Json, sent: Json, left: Json) -> None:
    result = deepcopy(live)
    assert drop_unsent(result, ours, sent) == (left != live)
    assert result == left
