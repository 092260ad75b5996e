"""What of a build goes where, and what people are told about the rest."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.sampling import quick

from syncline.api.configsync import ConfigSyncTarget
from syncline.core.objects import Target
from syncline.core.placing import BuildOutput, Placement, by_values, place

Json = dict[str, Any]

CLUSTER_KINDS = {"Namespace", "ClusterRole", "CustomResourceDefinition"}
KNOWN = CLUSTER_KINDS | {"ConfigMap", "Secret", "Service", "Deployment", "Role"}


class Doc(Struct, frozen=True):
    manifest: Any
    file: str = "app.yaml"
    line: int = 1


class File(Struct, frozen=True):
    path: str
    content: bytes = b"x=1\n"
    secret: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def scope(_group: str, _version: str, kind: str) -> bool | None:
    return kind not in CLUSTER_KINDS if kind in KNOWN else None


def manifest(kind: str, name: str, namespace: str = "", **fields: Any) -> Json:
    version, _, kind = kind.rpartition("/")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version or "v1", "kind": kind, "metadata": metadata, **fields}


def target(kind: str, name: str, **fields: Any) -> ConfigSyncTarget:
    return msgspec.convert({"type": kind, "name": name, **fields}, ConfigSyncTarget)


def placed(
    *documents: Doc, files: tuple[File, ...] = (), targets: tuple[ConfigSyncTarget, ...] = (), forced: str | None = None
) -> Placement:
    return place([BuildOutput(documents, files, targets)], namespace="home", scope=scope, forced=forced)


def places(placement: Placement) -> list[str]:
    assert placement.errors == ()
    return [str(one.target) for one in placement.objects]


class TestWithoutTargets:
    def test_manifests_go_where_they_say_and_else_to_the_namespace_of_the_sync(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a")),
            Doc(manifest("ConfigMap", "a", "team"), line=9),
            Doc(manifest("apps/v1/Deployment", "web"), "web.yaml", 3),
            Doc(manifest("Namespace", "team"), "web.yaml", 30),
        )
        assert places(placement) == ["home/a", "team/a", "Deployment.apps home/web", "Namespace team"]
        assert [one.manifest["metadata"].get("namespace") for one in placement.objects] == [
            "home",
            "team",
            "home",
            None,
        ]
        assert [one.origin for one in placement.objects] == ["app.yaml:1", "app.yaml:9", "web.yaml:3", "web.yaml:30"]
        assert placement.unplaced == ()

    def test_an_environment_takes_every_object_that_is_in_a_namespace(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a", "team")), Doc(manifest("ClusterRole", "reader")), forced="prod"
        )
        assert places(placement) == ["prod/a", "ClusterRole reader"]

    def test_a_namespace_of_what_is_in_none_is_left_out_with_a_note(self) -> None:
        placement = placed(Doc(manifest("ClusterRole", "reader", "team")))
        assert places(placement) == ["ClusterRole reader"]
        assert "namespace" not in placement.objects[0].manifest["metadata"]
        assert placement.notes == ("app.yaml:1: ClusterRole reader is in no namespace; team is left out",)

    @pytest.mark.parametrize(("given_scope", "place_"), [("Namespaced", "home/w"), ("Cluster", "w")])
    def test_a_kind_that_the_build_itself_defines_is_known(self, given_scope: str, place_: str) -> None:
        spec = {"group": "example.com", "scope": given_scope, "names": {"kind": "Widget"}}
        placement = placed(
            Doc(manifest("example.com/v1/Widget", "w")),
            Doc(manifest("apiextensions.k8s.io/v1/CustomResourceDefinition", "widgets.example.com", spec=spec)),
        )
        assert places(placement)[0] == f"Widget.example.com {place_}"
        assert placement.objects[0].served

    def test_a_kind_that_nobody_knows_is_marked_so(self) -> None:
        placement = placed(Doc(manifest("example.com/v1/Widget", "w")))
        assert places(placement) == ["Widget.example.com home/w"]
        assert not placement.objects[0].served

    def test_a_file_that_is_no_manifest_is_reported(self) -> None:
        placement = placed(files=(File("conf/app.ini"),))
        assert [str(one) for one in placement.unplaced] == [
            "conf/app.ini: the file is no manifest, and no target of type ConfigMap or Secret takes it"
        ]

    def test_the_manifest_given_is_not_changed(self) -> None:
        given_manifest = manifest("ConfigMap", "a", data={"x": "1"})
        placed(Doc(given_manifest), targets=(target("ConfigMap", "a", overrides={"data": {"x": "2"}}),))
        assert given_manifest == manifest("ConfigMap", "a", data={"x": "1"})


class TestErrors:
    @pytest.mark.parametrize(
        ("broken", "message"),
        [
            ("text", "the document is not an object: write apiVersion, kind and metadata.name"),
            ({}, "the document has no apiVersion: write one, such as v1 or apps/v1"),
            ({"apiVersion": "v1", "metadata": {"name": "a"}}, "a has no kind: write one, such as ConfigMap"),
            (
                manifest("a b/ConfigMap", "a"),
                "ConfigMap a apiVersion is not a version: write one, such as v1 or apps/v1",
            ),
            (
                {**manifest("ConfigMap", "a"), "kind": 7},
                "a kind is not the name of a kind: write one, such as ConfigMap",
            ),
            (
                {"apiVersion": "v1", "kind": "ConfigMap"},
                "ConfigMap has no metadata.name: write metadata with the object's name",
            ),
            (manifest("ConfigMap", ""), "ConfigMap has no metadata.name: write the object's name"),
            (
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "run-"}},
                "Pod has generateName: write a name instead, so that it is the same object every time",
            ),
            (
                manifest("List", "", items=[manifest("ConfigMap", "a")]),
                "List is a List: write its items as documents of their own",
            ),
            (
                manifest("ConfigMap", "My_Map"),
                (
                    "ConfigMap My_Map metadata.name is not a name: "
                    'write lowercase letters, digits, "-" and ".", at most 253, as text'
                ),
            ),
            (
                manifest("example.com/v1/Widget", "../x"),
                (
                    "Widget ../x metadata.name is not a name: "
                    'write letters, digits, "-", "_", ".", ":" and "@", at most 253, as text'
                ),
            ),
            (
                manifest("ConfigMap", "a", "Team_A"),
                (
                    "ConfigMap a metadata.namespace is not a name: "
                    'write lowercase letters, digits and "-", such as team-a'
                ),
            ),
            (
                manifest("ConfigMap", "a", data={"port": 8080}),
                "ConfigMap a data.port is a number: put it in quotes to make it text",
            ),
            (manifest("ConfigMap", "a", data=["x"]), "ConfigMap a data must be a map of texts"),
            (
                manifest("Secret", "a", data={"password": "hunter2!"}),
                "Secret a data.password is not base64: encode it, or write it under stringData as it is",
            ),
            (
                manifest("Secret", "a", stringData={"pin": 1234}),
                "Secret a stringData.pin is a number: put it in quotes to make it text",
            ),
            (
                manifest("ConfigMap", "a", binaryData={"x": "-"}),
                "ConfigMap a binaryData.x is not base64: encode it, or write it under data as it is",
            ),
            (
                {**manifest("ConfigMap", "a"), "metadata": {"name": "a", "labels": {"on": True}}},
                "ConfigMap a metadata.labels.on is true or false: put it in quotes to make it text",
            ),
        ],
    )
    def test_a_broken_manifest_is_named_with_its_file_and_line(self, broken: Any, message: str) -> None:
        placement = placed(Doc(broken, "base/x.yaml", 12))
        assert f"base/x.yaml:12: {message}" in placement.errors
        assert placement.objects == ()

    def test_everything_that_is_wrong_is_found_in_one_go(self) -> None:
        placement = placed(Doc({}, line=1), Doc(manifest("ConfigMap", "ok"), line=4), Doc(manifest("Pod", ""), line=8))
        assert [error.partition(" ")[0] for error in placement.errors] == ["app.yaml:1:", "app.yaml:1:", "app.yaml:8:"]

    @pytest.mark.parametrize("name", ["system:node", "a.b-c"])
    def test_roles_may_have_names_that_others_may_not(self, name: str) -> None:
        assert placed(Doc(manifest("rbac.authorization.k8s.io/v1/ClusterRole", name))).errors == ()

    def test_an_object_that_is_there_twice_is_an_error_that_names_both_places(self) -> None:
        placement = placed(
            Doc(manifest("apps/v1/Deployment", "web"), "a.yaml", 1),
            Doc(manifest("apps/v1beta1/Deployment", "web", "home"), "b.yaml", 7),
        )
        assert placement.errors == (
            (
                "b.yaml:7: Deployment.apps home/web is there already, from a.yaml:1: "
                "remove one, or give it another name or namespace"
            ),
        )

    def test_two_namespaces_that_an_environment_makes_one_collide(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a", "x"), line=1), Doc(manifest("ConfigMap", "a", "y"), line=5), forced="prod"
        )
        assert placement.errors[0].startswith("app.yaml:5: prod/a is there already, from app.yaml:1")

    def test_objects_of_a_tool_that_tells_no_lines_are_told_apart(self) -> None:
        out = "kustomization.yaml"
        placement = placed(
            *(Doc(manifest("ConfigMap", name), out, 0) for name in ("a", "b")),
            Doc({}, out, 0),
            targets=(target("ConfigMap", "b"),),
        )
        assert [str(one.target) for one in placement.objects] == ["home/b"]
        assert [one.what for one in placement.unplaced] == ["ConfigMap a"]


class TestTargets:
    def test_only_what_is_listed_is_placed_and_the_rest_is_reported(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a")),
            Doc(manifest("apps/v1/Deployment", "web"), line=5),
            targets=(target("deployment", "web"),),
        )
        assert places(placement) == ["Deployment.apps home/web"]
        assert [str(one) for one in placement.unplaced] == [
            "app.yaml:1: ConfigMap a is not in targets, so it is not applied"
        ]

    @pytest.mark.parametrize("kind", ["Deployment", "deployment", "DEPLOYMENT.apps", "Deployment.apps"])
    def test_the_type_ignores_case_and_may_name_the_group(self, kind: str) -> None:
        placement = placed(Doc(manifest("apps/v1/Deployment", "web")), targets=(target(kind, "web"),))
        assert places(placement) == ["Deployment.apps home/web"]

    def test_a_group_tells_kinds_of_one_name_apart(self) -> None:
        documents = Doc(manifest("Service", "web")), Doc(manifest("serving.knative.dev/v1/Service", "web"), line=9)
        assert places(placed(*documents, targets=(target("Service.serving.knative.dev", "web"),))) == [
            "Service.serving.knative.dev home/web"
        ]
        assert places(placed(*documents, targets=(target("Service", "web"),))) == [
            "Service home/web",
            "Service.serving.knative.dev home/web",
        ]

    def test_a_target_puts_its_manifest_into_its_namespace_and_overrides_it(self) -> None:
        overrides = {"spec": {"replicas": 3}, "metadata": {"labels": {"tier": "front"}}}
        placement = placed(
            Doc(manifest("apps/v1/Deployment", "web", "team", spec={"replicas": 1, "paused": False})),
            targets=(target("Deployment", "web", namespace="blue", overrides=overrides), target("Deployment", "web")),
        )
        assert places(placement) == ["Deployment.apps blue/web", "Deployment.apps team/web"]
        blue, team = (one.manifest for one in placement.objects)
        assert blue["spec"] == {"replicas": 3, "paused": False}
        assert blue["metadata"] == {"name": "web", "namespace": "blue", "labels": {"tier": "front"}}
        assert team["spec"] == {"replicas": 1, "paused": False}

    def test_of_two_manifests_of_one_name_a_target_means_that_of_its_namespace(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a", "x"), line=1),
            Doc(manifest("ConfigMap", "a", "y"), line=5),
            targets=(target("ConfigMap", "a", namespace="y"),),
        )
        assert places(placement) == ["y/a"]
        assert [one.origin for one in placement.objects] == ["app.yaml:5"]
        assert [one.origin for one in placement.unplaced] == ["app.yaml:1"]

    def test_an_environment_beats_the_namespace_of_a_target(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a")), targets=(target("ConfigMap", "a", namespace="blue"),), forced="prod"
        )
        assert places(placement) == ["prod/a"]

    def test_a_target_that_matches_nothing_is_an_error(self) -> None:
        placement = placed(Doc(manifest("ConfigMap", "a")), targets=(target("Deployment", "web"),))
        assert placement.errors == (
            "targets: Deployment web is in no file: correct type and name, or remove the target",
        )

    def test_a_target_listed_twice_is_an_error(self) -> None:
        twice = target("ConfigMap", "a")
        placement = placed(Doc(manifest("ConfigMap", "a")), targets=(twice, twice))
        assert placement.errors[0].startswith("app.yaml:1: home/a is there twice")

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            ({"metadata": {"name": "b"}}, "the name cannot be changed: change it in the file"),
            ({"kind": "Secret"}, "the patch changes kind; it must stay"),
            ({"metadata": {"annotations": {"syncline.dev/x": "y"}}}, "those of syncline.dev are Syncline's own"),
            ({"data": {"x": 7}}, "ConfigMap a data.x is a number: put it in quotes to make it text"),
        ],
    )
    def test_overrides_cannot_make_another_or_a_broken_object(self, overrides: Json, message: str) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "a", data={"x": "1"})), targets=(target("ConfigMap", "a", overrides=overrides),)
        )
        assert placement.errors[0].startswith("targets: overrides of ConfigMap a (app.yaml:1): ")
        assert placement.errors[0].endswith(message)
        assert placement.objects == ()


class TestFiles:
    def test_a_file_becomes_data_under_its_name_or_under_the_key(self) -> None:
        placement = placed(
            files=(File("conf/app.ini"),),
            targets=(target("ConfigMap", "plain"), target("configmap", "keyed", key="settings", namespace="blue")),
        )
        assert places(placement) == ["home/plain", "blue/keyed"]
        assert [one.manifest["data"] for one in placement.objects] == [{"app.ini": "x=1\n"}, {"settings": "x=1\n"}]
        assert [one.origin for one in placement.objects] == ["conf/app.ini", "conf/app.ini"]
        assert placement.unplaced == ()

    def test_a_secret_holds_the_file_in_base64(self) -> None:
        placement = placed(files=(File("token", b"\x00s3cret", secret=True),), targets=(target("Secret", "s"),))
        assert placement.objects[0].manifest["data"] == {"token": base64.b64encode(b"\x00s3cret").decode()}

    def test_bytes_that_are_no_text_go_to_binary_data(self) -> None:
        placement = placed(files=(File("a.bin", b"\xff\x00"), File("b.txt")), targets=(target("ConfigMap", "c"),))
        assert placement.objects[0].manifest["binaryData"] == {"a.bin": "/wA="}
        assert placement.objects[0].manifest["data"] == {"b.txt": "x=1\n"}

    def test_a_target_without_a_key_takes_all_files(self) -> None:
        files = tuple(File(f"conf/{name}") for name in ("b", "a", "c"))
        placement = placed(files=files, targets=(target("ConfigMap", "all"),))
        assert list(placement.objects[0].manifest["data"]) == ["a", "b", "c"]
        assert placement.objects[0].origin == "conf/a, conf/b, conf/c"

    def test_targets_with_keys_fill_one_object_together_each_with_its_overrides(self) -> None:
        placement = placed(
            files=(File("a.ini", b"1"), File("b.ini", b"2"), File("c.ini", b"3")),
            targets=(
                target("ConfigMap", "app", key="a.ini", overrides={"metadata": {"labels": {"x": "1"}}}),
                target("ConfigMap", "app", key="b.ini", overrides={"immutable": True}),
            ),
            forced="prod",
        )
        assert places(placement) == ["prod/app"]
        assert placement.objects[0].manifest["data"] == {"a.ini": "1", "b.ini": "2"}
        assert placement.objects[0].manifest["metadata"]["labels"] == {"x": "1"}
        assert placement.objects[0].manifest["immutable"] is True
        assert [one.origin for one in placement.unplaced] == ["c.ini"]

    def test_several_targets_take_one_file_with_different_overrides(self) -> None:
        placement = placed(
            files=(File("a.ini"),),
            targets=(
                target("ConfigMap", "one", overrides={"data": {"extra": "1"}}),
                target("ConfigMap", "two", overrides={"data": {"a.ini": None, "b.ini": "2"}}),
            ),
        )
        assert [one.manifest["data"] for one in placement.objects] == [{"a.ini": "x=1\n", "extra": "1"}, {"b.ini": "2"}]

    def test_a_manifest_comes_before_files(self) -> None:
        placement = placed(
            Doc(manifest("ConfigMap", "app", data={"x": "1"})),
            files=(File("a"),),
            targets=(target("ConfigMap", "app"),),
        )
        assert placement.objects[0].manifest["data"] == {"x": "1"}
        assert [one.origin for one in placement.unplaced] == ["a"]

    @pytest.mark.parametrize(
        ("files", "listed", "message"),
        [
            (
                (),
                target("ConfigMap", "app"),
                "ConfigMap home/app is made by no manifest and by no file: correct type and name, or remove the target",
            ),
            (
                (),
                target("ConfigMap", "app", key="x"),
                "ConfigMap home/app has no file: there is none that is not a manifest; correct source.git.path",
            ),
            (
                (File("a/app.ini"), File("b/app.ini")),
                target("ConfigMap", "app"),
                (
                    "ConfigMap home/app would have two files under app.ini: a/app.ini and b/app.ini; "
                    "list targets with a key, or rename one"
                ),
            ),
            (
                (File("a/app.ini"), File("b/app.ini")),
                target("ConfigMap", "app", key="app.ini"),
                "ConfigMap home/app takes app.ini, and there are two: a/app.ini and b/app.ini",
            ),
            (
                (File("a"), File("b")),
                target("ConfigMap", "app", key="c"),
                "ConfigMap home/app takes c, and of several files none is called so: a, b",
            ),
            (
                (File("my conf"),),
                target("ConfigMap", "app"),
                (
                    "ConfigMap home/app cannot have a key like the name of my conf: "
                    'write key, of letters, digits, "-", "_" and "."'
                ),
            ),
            (
                (File("pass.enc", secret=True),),
                target("ConfigMap", "app"),
                "pass.enc is encrypted, and ConfigMap home/app would show it to many: write type: Secret",
            ),
            (
                (File("big", b"x" * (1024 * 1024 + 1)),),
                target("ConfigMap", "app"),
                "ConfigMap home/app is larger than 1 MiB with big: spread the files over several targets",
            ),
        ],
    )
    def test_files_and_targets_that_do_not_go_together(
        self, files: tuple[File, ...], listed: ConfigSyncTarget, message: str
    ) -> None:
        placement = placed(files=files, targets=(listed,))
        assert placement.errors == (f"targets: {message}",)
        assert placement.objects == ()


class TestValues:
    def test_targets_are_built_once_for_each_set_of_values(self) -> None:
        plain, red, also_red = (
            target("ConfigMap", "a"),
            target("ConfigMap", "b", values={"color": "red"}),
            target("ConfigMap", "c", values={"color": "red"}),
        )
        assert by_values([red, plain, also_red]) == [({}, (plain,)), ({"color": "red"}, (red, also_red))]
        assert by_values([red]) == [({"color": "red"}, (red,))]
        assert by_values([]) == [({}, ())]

    def test_what_one_of_the_builds_has_placed_is_not_reported(self) -> None:
        def build(color: str, *targets: ConfigSyncTarget) -> BuildOutput:
            return BuildOutput([Doc(manifest("ConfigMap", name, data={"color": color})) for name in "abc"], (), targets)

        builds = [
            build("blue", target("ConfigMap", "a")),
            build("red", target("ConfigMap", "b", values={"color": "red"})),
        ]
        placement = place(builds, namespace="home", scope=scope)
        assert places(placement) == ["home/a", "home/b"]
        assert [one.manifest["data"]["color"] for one in placement.objects] == ["blue", "red"]
        assert [one.what for one in placement.unplaced] == ["ConfigMap c"]


kinds = st.sampled_from(["ConfigMap", "Namespace", "apps/v1/Deployment", "example.com/v1/Widget"])
documents = st.lists(
    st.builds(manifest, kinds, st.sampled_from(["a", "b", "C!", ""]), st.sampled_from(["", "x", "Y_"])), max_size=6
)
listings = st.lists(
    st.builds(target, st.sampled_from(["ConfigMap", "deployment", "Widget.example.com"]), st.sampled_from(["a", "b"])),
    max_size=3,
)


@quick
@given(documents, listings, st.sampled_from([None, "prod"]))
def test_every_manifest_is_placed_reported_or_an_error(
    given_documents: list[Json], listed: list[ConfigSyncTarget], forced: str | None
) -> None:
    numbered = [Doc(one, line=line) for line, one in enumerate(given_documents, 1)]
    placement = placed(*numbered, targets=tuple(listed), forced=forced)
    for one in numbered:
        origin = f"app.yaml:{one.line}"
        fates = (
            any(origin == found.origin for found in placement.objects),
            any(origin == found.origin for found in placement.unplaced),
            any(error.startswith(f"{origin}:") or f"from {origin}:" in error for error in placement.errors),
        )
        assert any(fates)
    for found in placement.objects:
        metadata = found.manifest["metadata"]
        assert (metadata.get("namespace") or "", metadata["name"]) == (found.target.namespace, found.target.name)
        assert found.target.namespace in (("", "home", "x") if forced is None else ("", forced))
    assert len({found.target for found in placement.objects}) == len(placement.objects)
    assert all(isinstance(found.target, Target) for found in placement.objects)
