"""An object as leaves by their paths, and back."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick, thorough

from syncline.core.digest import DigestKey, value_digests
from syncline.core.leaf_edits import apply_leaves, canonical
from syncline.core.object_paths import (
    KeyedItem,
    PathError,
    SetMember,
    join_path,
    leaf_digests,
    leaves,
    pointer_path,
    split_path,
)
from syncline.core.object_shapes import Shape, shape_from_schema, shape_of_kind
from syncline.core.twoway import Base, agree

Json = dict[str, Any]
KEY = DigestKey(b"secret")
DEPLOYMENT = shape_of_kind("Deployment.apps")
SERVICE = shape_of_kind("Service")
WIDGET = shape_from_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name", "side"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "side": {"type": "string", "default": "left"},
                                "size": {
                                    "x-kubernetes-int-or-string": True,
                                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                                    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$",
                                },
                            },
                        },
                    },
                    "refs": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "words": {"type": "array", "items": {"type": "string"}},
                    "ref": {"type": "object", "x-kubernetes-map-type": "atomic"},
                    "open": {"type": "object", "additionalProperties": {"type": "object"}},
                },
            }
        },
    }
)


def deployment(**pod: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "labels": {"app": "web", "syncline.dev/x": "y"}},
        "spec": {"replicas": 2, "template": {"spec": pod}},
        "status": {"replicas": 2},
    }


def pod_leaves(**pod: Any) -> Json:
    found = leaves(deployment(**pod), DEPLOYMENT)
    return {
        path.removeprefix("spec/template/spec/"): value for path, value in found.items() if path.startswith("spec/t")
    }


class TestLeaves:
    def test_identity_status_and_marks_are_no_leaves(self) -> None:
        assert leaves(deployment(hostNetwork=True), DEPLOYMENT) == {
            "metadata/labels/app": "web",
            "spec/replicas": 2,
            "spec/template/spec/hostNetwork": True,
        }

    def test_items_of_lists_go_by_their_keys(self) -> None:
        web = {
            "name": "web",
            "image": "a:1",
            "args": ["-v", "x"],
            "env": [{"name": "A", "value": "1"}, {"name": "B"}],
            "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP", "name": "dns"}],
            "volumeMounts": [{"mountPath": "/data", "name": "disk"}],
        }
        assert pod_leaves(containers=[web]) == {
            "containers/[name=web]/image": "a:1",
            "containers/[name=web]/args": ["-v", "x"],
            "containers/[name=web]/env/[name=A]/value": "1",
            "containers/[name=web]/env/[name=B]": {},
            "containers/[name=web]/ports/[containerPort=80,protocol=TCP]": {},
            "containers/[name=web]/ports/[containerPort=80,protocol=UDP]/name": "dns",
            'containers/[name=web]/volumeMounts/[mountPath="~1data"]/name': "disk",
        }

    @pytest.mark.parametrize(
        ("pod", "found"),
        [
            ({"volumes": [{"name": "a", "emptyDir": {}}]}, {"volumes/[name=a]/emptyDir": {}}),
            ({"volumes": [{"name": "a", "emptyDir": {"medium": None}}]}, {"volumes/[name=a]/emptyDir": {}}),
            ({"nodeSelector": {}, "securityContext": {}, "tolerations": [], "hostname": None}, {}),
            ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b"}}),
            ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a"}]}),
            ({"hostAliases": [{"ip": "::1", "hostnames": ["a"]}]}, {'hostAliases/[ip="::1"]/hostnames': ["a"]}),
            ({"imagePullSecrets": [{"name": "a"}]}, {"imagePullSecrets/[name=a]": {}}),
            (
                {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "X", "maxSkew": 1}]},
                {"topologySpreadConstraints/[topologyKey=zone,whenUnsatisfiable=X]/maxSkew": 1},
            ),
            (
                {"containers": [{"name": "a"}, {"name": "a", "image": "x"}]},
                {"containers": [{"name": "a"}, {"name": "a", "image": "x"}]},
            ),
            ({"containers": [{"image": "x"}]}, {"containers": [{"image": "x"}]}),
            ({"containers": "odd"}, {"containers": "odd"}),
        ],
    )
    def test_what_counts_and_what_does_not(self, pod: Json, found: Json) -> None:
        assert pod_leaves(**pod) == (found or {"spec/template/spec".removeprefix("spec/template/spec/"): {}})

    def test_ports_of_a_service_go_by_port_and_protocol(self) -> None:
        service = {"spec": {"ports": [{"port": 80, "targetPort": "web"}], "selector": {"app": "web"}}}
        assert leaves(service, SERVICE) == {
            "spec/ports/[port=80,protocol=TCP]/targetPort": "web",
            "spec/selector": {"app": "web"},
        }

    def test_lists_of_an_unknown_kind_are_one_value(self) -> None:
        odd = {"spec": {"containers": [{"name": "a"}], "resources": {}}}
        found = leaves(odd, shape_of_kind("Widget.example.com"))
        assert found == {"spec/containers": [{"name": "a"}], "spec/resources": {}}

    def test_a_schema_gives_keys_sets_and_whole_maps(self) -> None:
        widget = {
            "spec": {
                "parts": [{"name": "a", "size": "1"}, {"name": "a", "side": "right"}],
                "refs": [{"name": "x", "a": 1, "b": None}],
                "tags": ["z", "b"],
                "words": ["z", "b"],
                "ref": {"name": "a", "key": "b"},
                "open": {"[x]/~": {}},
            }
        }
        assert leaves(widget, WIDGET) == {
            "spec/parts/[name=a,side=left]/size": "1",
            "spec/parts/[name=a,side=right]": {},
            "spec/refs/[name=x]": {"a": 1},
            "spec/tags/[=b]": "b",
            "spec/tags/[=z]": "z",
            "spec/words": ["z", "b"],
            "spec/ref": {"name": "a", "key": "b"},
            "spec/open/~2x]~1~0": {},
        }


class TestDigests:
    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("1000m", 1, True),
            ("1", "1.0", True),
            ("1Gi", "1024Mi", True),
            ("0.5", "500m", True),
            ("1e3", "1k", True),
            ("1Gi", "1G", False),
            ("much", "more", False),
        ],
    )
    def test_quantities_are_numbers(self, one: Any, other: Any, same: bool) -> None:
        def digests(value: Any) -> dict[str, str]:
            container = {"name": "a", "resources": {"limits": {"cpu": value}}}
            return leaf_digests(deployment(containers=[container]), DEPLOYMENT, KEY)

        assert (digests(one) == digests(other)) is same

    def test_quantities_inside_a_list_without_keys_are_numbers_too(self) -> None:
        def digests(value: str) -> dict[str, str]:
            claim = {"spec": {"resources": {"requests": {"storage": value}}}}
            return leaf_digests({"spec": {"volumeClaimTemplates": [claim]}}, shape_of_kind("StatefulSet.apps"), KEY)

        assert digests("1Gi") == digests("1024Mi") != digests("2Gi")

    @pytest.mark.parametrize(("one", "other"), [(80, "80"), (True, 1), (True, "true"), ({}, "{}"), (["a"], '["a"]')])
    def test_values_of_other_types_are_different(self, one: Any, other: Any) -> None:
        shape = shape_of_kind("Widget.example.com")
        assert leaf_digests({"spec": {"a": one}}, shape, KEY) != leaf_digests({"spec": {"a": other}}, shape, KEY)

    def test_the_values_of_a_config_map_have_the_digests_that_they_always_had(self) -> None:
        data = {"a": "1", "app.yaml": "x"}
        found = leaf_digests({"data": data, "binaryData": {"b": "AA=="}}, shape_of_kind("ConfigMap"), KEY)
        assert found == value_digests(data, {"b": "AA=="}, KEY)

    def test_a_digest_depends_on_the_key_and_tells_nothing(self) -> None:
        secret = {"data": {"password": "aHVudGVyMg=="}, "immutable": True}
        shape = shape_of_kind("Secret")
        one, other = leaf_digests(secret, shape, KEY), leaf_digests(secret, shape, DigestKey(b"other"))
        assert not {*one.values()} & {*other.values()}
        assert "aHVudGVyMg==" not in str(one)

    @pytest.mark.parametrize("value", ["1e999999999", "9" * 100_000, "1" + "0" * 63 + "Ei", "1e-99"])
    def test_a_tenant_cannot_make_a_quantity_costly(self, value: str) -> None:
        container = {"name": "a", "resources": {"limits": {"cpu": value}}}
        assert leaf_digests(deployment(containers=[container]), DEPLOYMENT, KEY)

    def test_a_tenant_cannot_make_the_depth_costly(self) -> None:
        deep: Any = "x"
        for _ in range(300):
            deep = {"a": deep}
        found = leaves({"spec": deep}, shape_of_kind("Widget.example.com"))
        assert len(found) == 1


class TestPaths:
    @pytest.mark.parametrize(
        ("segments", "path"),
        [
            (("spec", "a/b", "~", "[x]"), "spec/a~1b/~0/~2x]"),
            ((KeyedItem((("name", "web"),)),), "[name=web]"),
            ((KeyedItem((("port", 80), ("protocol", "TCP"))),), "[port=80,protocol=TCP]"),
            ((KeyedItem((("port", "80"),)),), '[port="80"]'),
            ((KeyedItem((("a,b", "]=,"),)),), '["a,b"="]=,"]'),
            ((SetMember("true"), SetMember(True)), '[="true"]/[=true]'),
        ],
    )
    def test_a_path_is_written_and_read(self, segments: tuple[Any, ...], path: str) -> None:
        assert join_path(segments) == path
        assert split_path(path) == segments

    @pytest.mark.parametrize(
        "path", ["[", "[]", "[name]", "[name=]", "[name=a", "[=a,b=c]", "[[1]", "[a=1 b]", "[" * 99999]
    )
    def test_what_is_no_path_is_refused(self, path: str) -> None:
        with pytest.raises(PathError):
            split_path(path)

    names = st.text(max_size=4) | st.sampled_from(["[", "~2", "a/b", "~", "[name=web]", "null", "1"])
    scalars = st.text(max_size=4) | st.integers(-5, 99) | st.booleans()
    segments = st.one_of(
        names,
        st.lists(st.tuples(names, scalars), min_size=1, max_size=3).map(lambda keys: KeyedItem(tuple(keys))),
        scalars.map(SetMember),
    )

    @thorough
    @given(st.lists(segments, min_size=1, max_size=4).map(tuple), st.lists(segments, min_size=1, max_size=4).map(tuple))
    def test_a_path_means_one_thing(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
        text = join_path(one)
        assert repr(split_path(text)) == repr(one)
        assert len(text.split("/")) == len(one)
        assert (text == join_path(other)) is (repr(one) == repr(other))


class TestPointers:
    MANIFEST = deployment(
        containers=[{"name": "web", "args": ["a"], "env": [{"name": "A", "value": "1"}]}, {"name": "log"}],
        nodeSelector={"a": "b"},
    )

    @pytest.mark.parametrize(
        ("pointer", "path"),
        [
            ("metadata/labels/app", "metadata/labels/app"),
            ("spec/template/spec/containers/0/image", "spec/template/spec/containers/[name=web]/image"),
            ("spec/template/spec/containers/-", "spec/template/spec/containers/[name=log]"),
            ("spec/template/spec/containers/0/args/0", "spec/template/spec/containers/[name=web]/args"),
            (
                "spec/template/spec/containers/0/env/0/value",
                "spec/template/spec/containers/[name=web]/env/[name=A]/value",
            ),
            ("spec/template/spec/containers/9/image", "spec/template/spec/containers"),
            ("spec/template/spec/nodeSelector/a", "spec/template/spec/nodeSelector"),
            ("spec/template/spec/volumes/0/name", "spec/template/spec/volumes"),
            ("spec/template/spec/affinity", "spec/template/spec/affinity"),
        ],
    )
    def test_a_pointer_has_a_path(self, pointer: str, path: str) -> None:
        assert pointer_path(self.MANIFEST, pointer.split("/"), DEPLOYMENT)[0] == path


class TestApplying:
    def test_parents_and_items_are_made(self) -> None:
        put = {
            "spec/template/spec/containers/[name=web]/image": "a:1",
            "spec/template/spec/containers/[name=web]/ports/[containerPort=80,protocol=TCP]": {},
            "metadata/labels/a": "b",
        }
        assert apply_leaves({"kind": "Deployment"}, put, (), DEPLOYMENT) == {
            "kind": "Deployment",
            "spec": {
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "web", "image": "a:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]}
                        ]
                    }
                }
            },
            "metadata": {"labels": {"a": "b"}},
        }

    def test_what_has_nothing_left_is_removed(self) -> None:
        manifest = deployment(
            containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "y", "env": [{"name": "E", "value": "1"}]}],
            nodeSelector={"a": "b"},
        )
        before = deepcopy(manifest)
        gone = [
            "spec/template/spec/containers/[name=a]/image",
            "spec/template/spec/containers/[name=b]/env/[name=E]/value",
            "spec/template/spec/nodeSelector",
            "spec/template/spec/containers/[name=absent]/image",
        ]
        result = apply_leaves(manifest, {}, gone, DEPLOYMENT)
        assert result["spec"]["template"]["spec"] == {"containers": [{"name": "b", "image": "y"}]}
        assert manifest == before

    def test_an_empty_map_takes_the_place_of_its_last_field(self) -> None:
        volume = {"name": "a", "emptyDir": {"medium": "Memory"}}
        path = "spec/template/spec/volumes/[name=a]/emptyDir"
        result = apply_leaves(deployment(volumes=[volume]), {path: {}}, [f"{path}/medium"], DEPLOYMENT)
        assert result["spec"]["template"]["spec"]["volumes"] == [{"name": "a", "emptyDir": {}}]

    def test_an_item_is_found_although_it_leaves_a_key_to_its_default(self) -> None:
        service = {"spec": {"ports": [{"port": 80}]}}
        result = apply_leaves(service, {"spec/ports/[port=80,protocol=TCP]/targetPort": 8080}, (), SERVICE)
        assert result == {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}

    @pytest.mark.parametrize(
        ("there", "order", "result"),
        [("xy", "xbca", "xbcay"), ("", "ba", "ba"), ("x", "abx", "abx"), ("xy", "yax", "xya"), ("x", "x", "x")],
    )
    def test_new_items_go_where_the_other_object_has_them(self, there: str, order: str, result: str) -> None:
        def steps(names: str) -> Json:
            return deployment(initContainers=[{"name": name, "image": "i"} for name in names])

        put = {f"spec/template/spec/initContainers/[name={name}]/image": "i" for name in sorted({*order} - {*there})}
        made = apply_leaves(steps(there), put, (), DEPLOYMENT, order=steps(order))
        assert [one["name"] for one in made["spec"]["template"]["spec"]["initContainers"]] == [*result]

    def test_members_of_a_set_come_and_go(self) -> None:
        widget = {"spec": {"tags": ["z", "b"]}}
        result = apply_leaves(widget, {"spec/tags/[=a]": "a", "spec/tags/[=z]": "z"}, ["spec/tags/[=b]"], WIDGET)
        assert result == {"spec": {"tags": ["z", "a"]}}

    def test_canonical_leaves_out_what_says_nothing(self) -> None:
        odd = deployment(containers=[{"name": "a", "ports": [{"containerPort": 1}], "args": None}], tolerations=[])
        assert canonical(odd, DEPLOYMENT) == {
            **deployment(containers=[{"name": "a", "ports": [{"containerPort": 1, "protocol": "TCP"}]}]),
        }
        assert canonical({"spec": {"tags": ["b", "a"]}}, WIDGET) == {"spec": {"tags": ["a", "b"]}}


names = st.sampled_from("abc")
values = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "1", "500m", "0.5"])
loose = st.recursive(
    values, lambda inside: st.lists(inside, max_size=2) | st.dictionaries(names, inside, max_size=2), max_leaves=5
)


def maps(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


containers = st.lists(
    maps(
        name=names,
        image=values,
        args=loose,
        env=st.lists(maps(name=names, value=values), max_size=3),
        ports=st.lists(maps(containerPort=st.integers(1, 2), protocol=st.sampled_from(["TCP", "UDP"]), name=names)),
        resources=maps(limits=st.dictionaries(names, values)),
    ),
    max_size=3,
)
deployments = maps(
    metadata=maps(labels=st.dictionaries(names, names) | st.none(), name=names),
    spec=maps(
        replicas=values,
        template=maps(
            spec=maps(
                containers=containers | loose,
                volumes=st.lists(maps(name=names, emptyDir=maps(medium=values)), max_size=2),
                nodeSelector=loose,
                securityContext=loose,
            )
        ),
    )
    | loose,
)
widgets = maps(
    spec=maps(
        parts=st.lists(maps(name=names, side=names, size=values, other=loose), max_size=3) | loose,
        tags=st.lists(names | values, max_size=3),
        refs=st.lists(maps(name=names, a=loose, b=loose), max_size=3) | loose,
        words=loose,
        ref=loose,
        open=loose,
    )
    | loose
)
objects = st.one_of(
    st.tuples(st.just(DEPLOYMENT), deployments, deployments),
    st.tuples(st.just(WIDGET), widgets, widgets),
    st.tuples(st.just(shape_of_kind("Widget.example.com")), widgets, widgets),
)


class TestRoundTrips:
    @thorough
    @given(objects)
    def test_an_object_becomes_another_by_its_leaves(self, drawn: tuple[Shape, Json, Json]) -> None:
        shape, one, other = drawn
        wanted, there = leaves(other, shape), leaves(one, shape)
        result = apply_leaves(one, wanted, [path for path in there if path not in wanted], shape, order=other)
        assert leaves(result, shape) == wanted
        assert leaf_digests(result, shape, KEY) == leaf_digests(other, shape, KEY)

    @thorough
    @given(objects)
    def test_canonical_is_what_the_leaves_make(self, drawn: tuple[Shape, Json, Json]) -> None:
        shape, one, _ = drawn
        form = canonical(one, shape)
        assert [*leaves(form, shape).items()] == [*leaves(one, shape).items()]
        assert canonical(form, shape) == form

    @quick
    @given(objects)
    def test_every_path_is_read_as_it_was_written(self, drawn: tuple[Shape, Json, Json]) -> None:
        shape, one, _ = drawn
        for path in leaves(one, shape):
            assert join_path(split_path(path)) == path

    @thorough
    @given(objects, st.sampled_from(["UpstreamWins", "DownstreamWins", "Merge"]))
    def test_two_sides_agree_by_their_leaves(self, drawn: tuple[Shape, Json, Json], strategy: Any) -> None:
        shape, up, down = drawn
        base = canonical({}, shape)
        ours, theirs = leaf_digests(up, shape, KEY), leaf_digests(down, shape, KEY)
        agreed = agree(Base.same(leaf_digests(base, shape, KEY)), ours, theirs, strategy)
        up_leaves, down_leaves = leaves(up, shape), leaves(down, shape)
        new_down = apply_leaves(
            down, {path: up_leaves[path] for path in agreed.down.set}, agreed.down.unset, shape, order=up
        )
        new_up = apply_leaves(up, {path: down_leaves[path] for path in agreed.up.set}, agreed.up.unset, shape)
        assert leaf_digests(new_down, shape, KEY) == agreed.downstream
        assert leaf_digests(new_up, shape, KEY) == agreed.upstream
