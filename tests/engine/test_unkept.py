"""What API servers were seen not to keep is expected of the next object of that kind."""

from syncline.engine.unkept import MAX_FIELDS, MAX_KINDS, RequestKind, UnkeptFields

CREATE = RequestKind("here", "apps/v1", "Deployment", "create")
SENT = {"spec": {"paused": False, "replicas": 0, "list": [{"name": "a", "stdin": False}]}}


def test_nothing_is_expected_of_a_kind_that_was_never_written() -> None:
    assert UnkeptFields().expected(CREATE, SENT) == ()


def test_what_was_not_kept_of_one_object_is_expected_of_the_next_as_far_as_it_has_it() -> None:
    fields = UnkeptFields()
    fields.learn(CREATE, ("spec.list.stdin", "spec.paused", "spec.unknown"))
    assert fields.expected(CREATE, SENT) == ("spec.list.stdin", "spec.paused")
    assert fields.expected(CREATE, {"spec": {"paused": True}}) == ()


def test_the_record_of_a_custom_kind_says_from_the_first_object_on_that_it_names_whole_maps() -> None:
    fields, widget = UnkeptFields(), CREATE._replace(api_version="example.com/v1", kind="Widget")
    sent = {"spec": {"reference": {"name": "x"}, "parts": [{"name": "y"}], "plain": {"a": 1}}}
    assert fields.expected(widget, sent) == ("=",)
    fields.learn(widget, ("+spec.parts", "=", "=spec.reference"))
    assert fields.expected(widget, sent) == ("+spec.parts", "=", "=spec.reference")
    assert fields.expected(widget._replace(operation="apply"), sent) == ("=",)


def test_another_way_of_writing_is_another_matter() -> None:
    fields = UnkeptFields()
    fields.learn(CREATE, ("spec.paused",))
    for other in (
        CREATE._replace(operation="apply"),
        CREATE._replace(cluster="there"),
        CREATE._replace(api_version="apps/v2"),
        CREATE._replace(kind="StatefulSet"),
    ):
        assert fields.expected(other, SENT) == ()


def test_only_so_much_is_remembered() -> None:
    fields = UnkeptFields()
    names = tuple(f"field-{number}" for number in range(3 * MAX_FIELDS))
    sent = dict.fromkeys(names, False)
    for start in range(0, len(names), 100):
        fields.learn(CREATE, names[start : start + 100])
    assert len(fields.expected(CREATE, sent)) == MAX_FIELDS
    for number in range(MAX_KINDS):
        fields.learn(CREATE._replace(kind=f"Kind{number}"), ("a",))
    assert fields.expected(CREATE, sent) == ()
    assert fields.expected(CREATE._replace(kind=f"Kind{MAX_KINDS - 1}"), {"a": 0}) == ("a",)
