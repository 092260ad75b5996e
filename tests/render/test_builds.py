"""Builds of manifests from files, with the real tools."""

import asyncio
import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyrage
import pytest
from tests.render.pgp import sealed

from syncline.api.build import Build, Helm, Jsonnet
from syncline.render import tools
from syncline.render.build_pool import BuildPool
from syncline.render.build_spec import BuildSpec, Built, SourceFile
from syncline.render.errors import BuildError, RenderFailed
from syncline.render.tools import tool_versions
from syncline.render.workers import build as build_worker
from syncline.render.workers.protocol import Failed, Parse, Text

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n"
CHART = {"chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "chart/values.yaml": "size: small\n"}


async def build(
    builder: BuildPool, files: Mapping[str, str | bytes | SourceFile], path: str = ".", **options: Any
) -> Built:
    tree = {
        name: each if isinstance(each, SourceFile) else SourceFile(each.encode() if isinstance(each, str) else each)
        for name, each in files.items()
    }
    return await builder.build(tree, BuildSpec(namespace="team", release="app", path=path, **options))


async def refused(
    builder: BuildPool, files: Mapping[str, str | bytes | SourceFile], path: str = ".", **options: Any
) -> str:
    with pytest.raises(BuildError) as caught:
        await build(builder, files, path, **options)
    return str(caught.value)


def manifest(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def names(built: Built) -> list[str]:
    return [document.manifest["metadata"]["name"] for document in built.documents]


def origins(built: Built) -> list[tuple[str, str, int]]:
    return [(document.manifest["metadata"]["name"], document.file, document.line) for document in built.documents]


class TestPlain:
    async def test_all_documents_of_a_folder_come_with_their_file_and_line(self, builder: BuildPool) -> None:
        files = {
            "apps/b.yml": "# note\n" + CONFIG.format("two") + "---\n" + CONFIG.format("three"),
            "apps/a/one.yaml": CONFIG.format("one"),
            "apps/c.json": '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "four"}}',
            "other/x.yaml": CONFIG.format("not-here"),
            "apps/.hidden.yaml": CONFIG.format("nor-here"),
        }
        built = await build(builder, files, "apps")
        assert origins(built) == [
            ("one", "apps/a/one.yaml", 1),
            ("two", "apps/b.yml", 2),
            ("three", "apps/b.yml", 7),
            ("four", "apps/c.json", 1),
        ]

    async def test_lists_are_taken_apart(self, builder: BuildPool) -> None:
        inner = {"apiVersion": "v1", "kind": "List", "items": [manifest("b")]}
        outer = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [manifest("a"), inner]}
        assert names(await build(builder, {"a.yaml": json.dumps(outer)})) == ["a", "b"]

    async def test_files_that_are_no_manifests_are_data(self, builder: BuildPool) -> None:
        files = {
            "conf/nginx.conf": "user x;",
            "conf/logo.png": b"\x89\xff",
            "conf/app.yaml": "level: debug\n",
            "conf/none.yaml": "# -\n",
        }
        built = await build(builder, files, "conf")
        assert [(data.path, data.name, data.content, data.secret) for data in built.data] == [
            ("conf/app.yaml", "app.yaml", b"level: debug\n", False),
            ("conf/logo.png", "logo.png", b"\x89\xff", False),
            ("conf/nginx.conf", "nginx.conf", b"user x;", False),
        ]
        assert built.documents == ()

    async def test_a_manifest_without_a_name_is_data_and_noted(self, builder: BuildPool) -> None:
        built = await build(builder, {"a.yaml": "\napiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"})
        assert [data.path for data in built.data] == ["a.yaml"]
        assert built.notes == (
            "a.yaml, line 2: has apiVersion and kind but no metadata.name, so the file is taken as data",
        )

    async def test_a_name_that_yaml_takes_for_something_else_is_an_error(self, builder: BuildPool) -> None:
        message = await refused(builder, {"a.yaml": CONFIG.format("on")})
        assert message == "a.yaml, line 1: metadata.name is not text, as YAML is read: put it in quotes"

    async def test_errors_name_file_and_line(self, builder: BuildPool) -> None:
        message = await refused(builder, {"a/b.yaml": CONFIG.format("x") + "---\na: b: c\n"})
        assert message == "a/b.yaml, line 6: a second colon in one value; put the value in quotes"

    async def test_links_within_the_tree_are_followed(self, builder: BuildPool) -> None:
        files = {
            "a/x.yaml": SourceFile(link="../b/y.yaml"),
            "a/folder": SourceFile(link="../b"),
            "b/y.yaml": CONFIG.format("linked"),
        }
        assert origins(await build(builder, files, "a")) == [("linked", "a/x.yaml", 1)]

    @pytest.mark.parametrize("target", ["/etc/passwd", "../../../../etc/passwd", "../../x", "a.yaml"])
    async def test_links_out_of_the_tree_are_refused(self, builder: BuildPool, target: str) -> None:
        message = await refused(builder, {"a/a.yaml": SourceFile(link=target)}, "a")
        assert message.startswith("a/a.yaml: is a symbolic link")

    async def test_an_empty_folder_gives_nothing(self, builder: BuildPool) -> None:
        assert await build(builder, {"a.yaml": "", "b.yaml": "---\n"}) == Built((), (), ())


class TestTemplates:
    async def test_files_are_templates_before_they_are_yaml(self, builder: BuildPool) -> None:
        files = {
            "a.yaml": CONFIG.format("{{ target.name }}-{{ region }}")
            + "data:\n{% for k in values.keys %}  {{ k }}: 'x'\n{% endfor %}"
        }
        built = await build(
            builder,
            files,
            template=True,
            values={"region": "eu", "keys": ["a", "b"]},
            variables={"target": {"name": "web"}},
        )
        assert built.documents[0].manifest["metadata"]["name"] == "web-eu"
        assert built.documents[0].manifest["data"] == {"a": "x", "b": "x"}

    async def test_shell_and_dashboard_variables_are_left_alone(self, builder: BuildPool) -> None:
        script = "echo \"${HOME} $1 $(date) ${VAR:-x}\" && awk '{print $2}' # $__interval [[ -n $X ]]"
        files = {"a.yaml": CONFIG.format("script") + f"data:\n  run: |\n    {script}\n"}
        for template in (False, True):
            built = await build(builder, files, template=template, values={"HOME": "no", "VAR": "no"})
            assert built.documents[0].manifest["data"]["run"] == script + "\n"

    async def test_numbers_and_truth_keep_their_type(self, builder: BuildPool) -> None:
        files = {
            "a.yaml": CONFIG.format("x")
            + "spec: {replicas: {{ n }}, paused: {{ off }}, text: '{{ n }}', none: {{ nothing }}}\n"
        }
        values = {"n": 3, "off": False, "nothing": None}
        built = await build(builder, files, template=True, values=values)
        assert built.documents[0].manifest["spec"] == {"replicas": 3, "paused": False, "text": "3", "none": "None"}

    async def test_a_name_without_a_value_is_an_error_with_its_line(self, builder: BuildPool) -> None:
        message = await refused(builder, {"a.yaml": CONFIG.format("x") + "a: {{ values.missing }}\n"}, template=True)
        assert (
            message
            == "a.yaml, line 5: the template: `values.missing` is undefined; there are values and the names in values"
        )

    async def test_there_is_one_pass(self, builder: BuildPool) -> None:
        files = {"a.yaml": CONFIG.format("x") + "data: {a: '{{ text }}'}\n"}
        built = await build(builder, files, template=True, values={"text": "{{ 7 * 7 }}", "other": "s"})
        assert built.documents[0].manifest["data"] == {"a": "{{ 7 * 7 }}"}

    @pytest.mark.parametrize(
        "text",
        ["{{ values.__class__ }}", "{{ values.items.__globals__ }}", "{% include 'b.yaml' %}", "{{ ''.__class__ }}"],
    )
    async def test_nothing_of_the_process_is_in_reach(self, builder: BuildPool, text: str) -> None:
        await refused(builder, {"a.yaml": text, "b.yaml": ""}, template=True, values={"a": 1})

    async def test_binary_files_pass_through(self, builder: BuildPool) -> None:
        content = b"\x00\xff{{ x }}"
        built = await build(builder, {"a.bin": content}, template=True)
        assert built.data[0].content == content

    async def test_without_templating_braces_are_text(self, builder: BuildPool) -> None:
        built = await build(builder, {"a.yaml": CONFIG.format("x") + "data: {a: '{{ b }}'}\n"})
        assert built.documents[0].manifest["data"] == {"a": "{{ b }}"}


@pytest.fixture(scope="module")
def age() -> pyrage.x25519.Identity:
    return pyrage.x25519.Identity.generate()


@pytest.fixture(scope="module")
def seal(age: pyrage.x25519.Identity, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("seal")

    def encrypt(name: str, text: str, *options: str, config: Path | None = None) -> bytes:
        (folder / name).write_text(text)
        command = [str(tools.find("sops")), "--disable-version-check"]
        command += ["--config", str(config)] if config else []
        command += ["encrypt", *([] if config else ["--age", str(age.to_public())]), *options, name]
        return subprocess.run(command, cwd=folder, env={"HOME": str(folder)}, check=True, capture_output=True).stdout

    return encrypt


@pytest.fixture(scope="module")
def keys(age: pyrage.x25519.Identity) -> dict[str, bytes]:
    return {"main.agekey": str(age).encode()}


SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\nstringData:\n  password: '{{ not a template }}'\n"


ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"


class TestEncrypted:
    async def test_encrypted_files_are_decrypted_and_never_templates(
        self, builder: BuildPool, seal: Any, keys: dict[str, bytes]
    ) -> None:
        files = {
            "db.yaml": seal("db.yaml", SECRET, "--encrypted-regex", "^stringData$"),
            "plain.yaml": CONFIG.format("{{ name }}"),
        }
        built = await build(builder, files, template=True, values={"name": "web"}, keys=keys)
        assert names(built) == ["db", "web"]
        assert built.documents[0].manifest["stringData"] == {"password": "{{ not a template }}"}

    async def test_encrypted_data_is_told_apart(self, builder: BuildPool, seal: Any, keys: dict[str, bytes]) -> None:
        files = {"a.txt": seal("a.txt", "hunter2"), "b.env": seal("b.env", "A=hunter2\n"), "c.txt": "open"}
        built = await build(builder, files, keys=keys)
        assert [(data.name, data.content, data.secret) for data in built.data] == [
            ("a.txt", b"hunter2", True),
            ("b.env", b"A=hunter2\n", True),
            ("c.txt", b"open", False),
        ]

    async def test_without_decryption_an_encrypted_file_is_an_error(self, builder: BuildPool, seal: Any) -> None:
        message = await refused(builder, {"db.yaml": seal("db.yaml", SECRET)})
        assert (
            message
            == "db.yaml: is encrypted with SOPS, and the sync has no spec.decryption: write the Secret with the key"
        )

    async def test_kustomize_sees_decrypted_files(self, builder: BuildPool, seal: Any, keys: dict[str, bytes]) -> None:
        files = {
            "k/kustomization.yaml": "resources: [db.yaml]\nsecretGenerator: [{name: g, envs: [a.env]}]\n"
            "generatorOptions: {disableNameSuffixHash: true}\n",
            "k/db.yaml": seal("db.yaml", SECRET, "--encrypted-regex", "^stringData$"),
            "k/a.env": seal("a.env", "A=b\n"),
        }
        built = await build(builder, files, "k", keys=keys)
        data = {document.manifest["metadata"]["name"]: document.manifest for document in built.documents}
        assert data["db"]["stringData"] == {"password": "{{ not a template }}"}
        assert data["g"]["data"] == {"A": base64.b64encode(b"b").decode()}

    async def test_charts_see_decrypted_values(self, builder: BuildPool, seal: Any, keys: dict[str, bytes]) -> None:
        files = CHART | {
            "chart/values.yaml": seal("values.yaml", "size: large\n"),
            "chart/templates/a.yaml": CONFIG.format("{{ .Values.size }}"),
        }
        assert names(await build(builder, files, "chart", keys=keys)) == ["large"]

    async def test_no_error_of_a_tool_shows_what_was_decrypted(
        self, builder: BuildPool, seal: Any, keys: dict[str, bytes]
    ) -> None:
        files = CHART | {
            "chart/values.yaml": seal("values.yaml", "size: hunter2\n"),
            "chart/templates/a.yaml": "\n{{ fail .Values.size }}",
        }
        message = await refused(builder, files, "chart", keys=keys)
        assert "hunter2" not in message
        assert message.startswith("chart/templates/a.yaml, line 2: helm: it failed; the details are hidden, because")

    async def test_pgp_keys_open_files_through_sops(self, builder: BuildPool) -> None:
        with sealed() as (key, file):
            built = await build(builder, {"a.yaml": file}, keys={"main.asc": key})
            message = await refused(builder, {"a.yaml": file}, keys={})
        assert message.startswith("a.yaml: no key of the decryption Secret decrypts it")
        assert built.documents[0].manifest["stringData"] == {"password": "open-sesame"}

    async def test_files_that_only_sops_knows_are_opened_by_it(
        self, builder: BuildPool, seal: Any, keys: dict[str, bytes]
    ) -> None:
        built = await build(builder, {"a.ini": seal("a.ini", "[part]\nkey = hunter2\n")}, keys=keys)
        assert (built.data[0].secret, b"hunter2" in built.data[0].content) == (True, True)

    async def test_shares_of_a_key_are_put_together_by_sops(
        self, builder: BuildPool, seal: Any, age: pyrage.x25519.Identity, keys: dict[str, bytes], tmp_path: Path
    ) -> None:
        other = pyrage.x25519.Identity.generate()
        groups = [{"age": [str(identity.to_public())]} for identity in (age, other)]
        rules = tmp_path / "rules.yaml"
        rules.write_text(json.dumps({"creation_rules": [{"shamir_threshold": 2, "key_groups": groups}]}))
        content = seal("shared.yaml", CONFIG.format("shared"), config=rules)
        assert b"shamir_threshold: 2" in content
        built = await build(builder, {"a.yaml": content}, keys=keys | {"other.agekey": str(other).encode()})
        assert names(built) == ["shared"]
        assert "no key of the decryption Secret decrypts it" in await refused(builder, {"a.yaml": content}, keys=keys)

    @pytest.mark.parametrize(
        ("service", "keys", "message"),
        [
            ("gcp_kms", {"aws-kms": b"x"}, "gcp_kms: write its credential to the decryption Secret, as gcp-kms"),
            ("kms", {}, "kms: write its credential to the decryption Secret, as aws-kms"),
            ("hc_vault", {"vault-token": b"x"}, "hc_vault: the Secret has vault-token but not vault-address"),
            ("hckms", {}, "hckms: this key service is not supported"),
        ],
    )
    async def test_a_key_service_is_asked_only_with_a_credential_of_the_secret(
        self, builder: BuildPool, service: str, keys: dict[str, bytes], message: str
    ) -> None:
        content = f"a: ENC[AES256_GCM,x]\nsops:\n    {service}: [{{arn: {ARN}, enc: x}}]\n    mac: x\n"
        told = await refused(builder, {"a.yaml": content}, keys=keys)
        assert told.startswith(f"a.yaml: no key service decrypts it: {message}")

    async def test_a_broken_seal_is_told(self, builder: BuildPool, seal: Any, keys: dict[str, bytes]) -> None:
        content = seal("db.yaml", SECRET, "--encrypted-regex", "^stringData$").replace(b"name: db", b"name: dc")
        message = await refused(builder, {"db.yaml": content}, keys=keys)
        assert message == "db.yaml: was changed after it was encrypted; encrypt it again"


def inline(field: str, version: str, kind: str, rest: str, annotation: str = "") -> str:
    """Write a plugin of kustomize into the kustomization itself."""
    metadata = f"metadata: {{name: a, annotations: {{{annotation}}}}}"
    return f"{field}:\n- |-\n  apiVersion: {version}\n  kind: {kind}\n  {metadata}\n  {rest}\n"


class TestKustomize:
    async def test_an_overlay_is_what_kustomize_makes_of_it(self, builder: BuildPool, tmp_path: Path) -> None:
        files = {
            "base/kustomization.yaml": "resources: [a.yaml]\nlabels: [{pairs: {tier: x}}]\n",
            "base/a.yaml": CONFIG.format("a") + "data: {k: v}\n",
            "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\npatches: [{path: p.yaml}]\n",
            "prod/p.yaml": CONFIG.format("a") + "data: {k: '2'}\n",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        command = [str(tools.find("kustomize")), "build", str(tmp_path / "prod")]
        told = (await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)).stdout
        built = await build(builder, files, "prod")
        plain = await build(builder, {"told.yaml": told})
        assert [document.manifest for document in built.documents] == [
            document.manifest for document in plain.documents
        ]
        assert origins(built) == [("prod-a", "base/a.yaml", 0)]

    async def test_what_a_kustomization_generates_is_from_it(self, builder: BuildPool) -> None:
        text = "configMapGenerator: [{name: g, literals: [a=b]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n"
        built = await build(builder, {"k/kustomization.yaml": text}, "k")
        assert origins(built) == [("g", "k/kustomization.yaml", 0)]
        assert built.documents[0].manifest["metadata"] == {"name": "g"}

    async def test_notes_that_a_kustomization_asks_for_stay(self, builder: BuildPool) -> None:
        files = {
            "k/kustomization.yaml": "resources: [a.yaml]\nbuildMetadata: [originAnnotations, managedByLabel]\n",
            "k/a.yaml": CONFIG.format("a"),
        }
        (document,) = (await build(builder, files, "k")).documents
        assert "config.kubernetes.io/origin" in document.manifest["metadata"]["annotations"]
        assert "app.kubernetes.io/managed-by" in document.manifest["metadata"]["labels"]

    async def test_templates_are_rendered_before_kustomize(self, builder: BuildPool) -> None:
        files = {
            "k/kustomization.yaml": "resources: [a.yaml, ../{{ base }}]\nnamePrefix: {{ env }}-\n",
            "k/a.yaml": CONFIG.format("{{ app }}"),
            "one/kustomization.yaml": "resources: ['{{ file }}']\ncommonAnnotations: {a: \"{{ '{{' }}\"}\n",
            "one/b.yaml": CONFIG.format("b"),
            "unrelated/chart.yaml": "{{ .Values.x }}",
        }
        values = {"env": "dev", "app": "web", "base": "one", "file": "b.yaml"}
        built = await build(builder, files, "k", template=True, values=values)
        assert sorted(origins(built)) == [("dev-b", "one/b.yaml", 0), ("dev-web", "k/a.yaml", 0)]

    async def test_a_whole_repository_may_be_a_kustomization(self, builder: BuildPool) -> None:
        files = {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": CONFIG.format("a")}
        assert origins(await build(builder, files)) == [("a", "a.yaml", 0)]

    async def test_links_lead_to_bases_in_the_tree(self, builder: BuildPool) -> None:
        files = {
            "k/kustomization.yaml": "resources: [base, b.yaml]\n",
            "k/base": SourceFile(link="../real"),
            "k/b.yaml": SourceFile(link="../other/b.yaml"),
            "real/kustomization.yaml": "resources: [a.yaml]\n",
            "real/a.yaml": CONFIG.format("a"),
            "other/b.yaml": CONFIG.format("b"),
        }
        assert sorted(names(await build(builder, files, "k"))) == ["a", "b"]

    async def test_what_kustomize_says_is_told(self, builder: BuildPool) -> None:
        files = {
            "k/kustomization.yaml": "resources: [../b]\n",
            "b/kustomization.yaml": "resources: [a.yaml]\n",
            "b/a.yaml": "a: b\n",
        }
        message = await refused(builder, files, "k")
        assert (
            message
            == "k/kustomization.yaml: kustomize: accumulating resources from 'a.yaml': missing Resource metadata"
        )

    async def test_what_kustomize_says_of_secrets_is_not_told(self, builder: BuildPool) -> None:
        files = {
            "k/kustomization.yaml": "resources: [a.yaml]\n",
            "k/a.yaml": "kind: Secret\nstringData: {p: hunter2}\n",
        }
        assert "hunter2" not in await refused(builder, files, "k")

    @pytest.mark.parametrize(
        "text",
        [
            "resources: [/etc]",
            "resources: ['git@example.com:team/x.git']",
            "resources: ['ssh://example.com/x']",
            "bases: ['../../..']",
            "configMapGenerator: [{name: a, files: [/etc/passwd]}]",
            "configMapGenerator: [{name: a, files: [../../../../etc/passwd]}]",
            "patches: [{path: /etc/passwd}]",
            "helmChartInflationGenerator: [{chartName: x}]",
            inline("generators", "builtin", "ConfigMapGenerator", "files: [/etc/hostname]"),
            inline("transformers", "builtin", "PatchTransformer", "path: /etc/hostname"),
            inline("generators", "builtin", "HelmChartInflationGenerator", "name: x\n  repo: https://example.com"),
            inline("generators", "x/v1", "X", "", "config.kubernetes.io/function: 'exec: {path: ./run.sh}'"),
            inline("generators", "x/v1", "X", "", "config.kubernetes.io/function: 'container: {image: x}'"),
        ],
    )
    async def test_nothing_from_outside_the_repository_gets_in(self, builder: BuildPool, text: str) -> None:
        files = {"k/kustomization.yaml": f"{text}\n", "k/run.sh": SourceFile(b"#!/bin/sh\necho\n", executable=True)}
        await refused(builder, files, "k")


class TestHelm:
    async def test_a_chart_is_rendered_with_its_values_the_last_first(self, builder: BuildPool) -> None:
        files = CHART | {
            "chart/templates/a.yaml": CONFIG.format("{{ .Release.Name }}-{{ .Values.size }}-{{ .Release.Namespace }}"),
            "chart/templates/_helpers.tpl": '{{- define "x" }}y{{ end }}',
            "chart/templates/NOTES.txt": "thanks",
            "chart/crds/crd.yaml": CONFIG.format("crd"),
            "chart/charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
            "chart/charts/sub/templates/b.yaml": CONFIG.format("sub"),
        }
        built = await build(builder, files, "chart", helm_values=({"size": "medium"}, {"size": "large"}))
        assert sorted(origins(built)) == [
            ("app-large-team", "chart/templates/a.yaml", 0),
            ("crd", "chart/crds/crd.yaml", 0),
            ("sub", "chart/charts/sub/templates/b.yaml", 0),
        ]
        options = Build(helm=Helm(release_name="own", namespace="elsewhere", include_crds=False))
        assert sorted(names(await build(builder, files, "chart", build=options))) == ["own-small-elsewhere", "sub"]

    async def test_hooks_are_left_out_and_told(self, builder: BuildPool) -> None:
        hook = CONFIG.format("{}") + "  annotations: {{helm.sh/hook: {}}}\n"
        files = CHART | {
            "chart/templates/a.yaml": CONFIG.format("kept"),
            "chart/templates/b.yaml": hook.format("migrate", "pre-upgrade"),
            "chart/templates/tests/c.yaml": hook.format("probe", "test"),
        }
        built = await build(builder, files, "chart")
        assert names(built) == ["kept"]
        (note,) = built.notes
        assert note.startswith("Helm hooks are not applied: ")
        assert "ConfigMap migrate (pre-upgrade)" in note
        assert "ConfigMap probe (test)" in note

    async def test_our_templates_are_only_for_the_values_of_a_chart(self, builder: BuildPool) -> None:
        files = CHART | {
            "chart/values.yaml": "size: {{ size }}\n",
            "chart/templates/a.yaml": CONFIG.format("{{ .Values.size }}"),
        }
        assert names(await build(builder, files, "chart", template=True, values={"size": "huge"})) == ["huge"]

    async def test_a_chart_that_is_not_vendored_is_told_what_to_do(self, builder: BuildPool) -> None:
        chart = (
            CHART["chart/Chart.yaml"]
            + "dependencies: [{name: redis, version: 1.0.0, repository: 'https://example.com'}]\n"
        )
        message = await refused(builder, {"chart/Chart.yaml": chart}, "chart")
        assert message.startswith(
            "chart/Chart.yaml: needs the charts redis in its charts folder; charts are not fetched: run"
        )

    async def test_the_version_and_apis_of_the_cluster_are_the_callers(self, builder: BuildPool) -> None:
        condition = 'if .Capabilities.APIVersions.Has "x.example.com/v1"'
        text = f"{{{{ .Capabilities.KubeVersion.Version }}}}{{{{ {condition} }}}}-x{{{{ end }}}}"
        files = CHART | {"chart/templates/a.yaml": CONFIG.format(text)}
        built = await build(builder, files, "chart", kube_version="v1.33.2", api_versions=("x.example.com/v1",))
        assert names(built) == ["v1.33.2-x"]

    async def test_errors_name_the_template_and_its_line(self, builder: BuildPool) -> None:
        files = CHART | {"chart/templates/a.yaml": "a: 1\nb: {{ .Values.none.such }}\n"}
        message = await refused(builder, files, "chart")
        assert message.startswith("chart/templates/a.yaml, line 2: helm: ")
        assert "nil pointer evaluating" in message
        assert "nil pointer evaluating" in await refused(builder, files, "chart", sensitive=True)

    async def test_values_from_a_secret_are_in_no_error(self, builder: BuildPool) -> None:
        files = CHART | {"chart/templates/a.yaml": "{{ fail .Values.password }}"}
        message = await refused(builder, files, "chart", sensitive=True, helm_values=({"password": "hunter2"},))
        assert "hunter2" not in message

    async def test_a_chart_sees_neither_names_of_hosts_nor_a_cluster_nor_our_environment(
        self, builder: BuildPool
    ) -> None:
        text = '{{ getHostByName "localhost" | quote }}{{ lookup "v1" "Secret" "" "" | len }}'
        files = CHART | {"chart/templates/a.yaml": CONFIG.format("x") + f"data: {{a: '{text}'}}\n"}
        assert (await build(builder, files, "chart")).documents[0].manifest["data"] == {"a": '""0'}
        for function in ("env", "expandenv"):
            files = CHART | {"chart/templates/a.yaml": f'{{{{ {function} "HOME" }}}}'}
            assert f'function "{function}" not defined' in await refused(builder, files, "chart")


class TestJsonnet:
    async def test_manifests_are_found_in_what_the_entry_says(self, builder: BuildPool) -> None:
        extra = [
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [{"apiVersion": "v1", "kind": "B", "metadata": {"name": "b"}}],
            }
        ]
        options = Jsonnet(library_paths=["vendor"], tlas={"env": "prod", "n": 3}, ext_vars={"extra": extra})
        files = {
            "j/main.jsonnet": "function(env='dev', n=1) (import 'lib')(env) + {n:: n, e: std.extVar('extra')}",
            "vendor/lib": "function(env) {a: {apiVersion: 'v1', kind: 'A', metadata: {name: env}} + (import 't')}",
            "vendor/t": "{text: importstr 't.txt'}",
            "vendor/t.txt": "hello",
        }
        built = await build(builder, files, "j", build=Build(jsonnet=options))
        assert sorted(names(built)) == ["b", "prod"]
        assert next(each.manifest["text"] for each in built.documents if each.manifest["kind"] == "A") == "hello"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{a: 1", "j/main.jsonnet, line 1: syntax error"),
            ("\n\n{a: error 'no luck'}", "j/main.jsonnet, line 3: runtime error: no luck"),
            (
                "import 'none.libsonnet'",
                "j/main.jsonnet: imports 'none.libsonnet', which is not among the files of the build",
            ),
            (
                "import '/etc/passwd'",
                "j/main.jsonnet: imports '/etc/passwd', which is not among the files of the build",
            ),
            ("importstr '../../../etc/passwd'", "j/main.jsonnet: imports '../../../etc/passwd', which is not among"),
            ("'text'", "j/main.jsonnet: gives a value that is neither a manifest nor a list or map of manifests"),
            ("std.extVar('x')", "j/main.jsonnet, line 1: external variable is not defined: x"),
        ],
    )
    async def test_errors_name_the_place(self, builder: BuildPool, text: str, message: str) -> None:
        assert (await refused(builder, {"j/main.jsonnet": text}, "j")).startswith(message)

    async def test_errors_quote_nothing_where_there_are_secrets(self, builder: BuildPool) -> None:
        message = await refused(builder, {"j/main.jsonnet": "error 'hunter2'"}, "j", sensitive=True)
        assert (
            message
            == "j/main.jsonnet, line 1: runtime error; the details are hidden, because the build contains secrets"
        )


async def test_a_build_takes_only_so_much(builder: BuildPool) -> None:
    message = await refused(builder, {"a.bin": bytes(25 * 1024 * 1024)})
    assert message == ".: the build needs 1 files of 25 MiB; the limit is 10000 files and 24 MiB: narrow the path"


async def test_a_tool_that_is_missing_is_named(
    builder: BuildPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        RenderFailed, match="the program helm is not installed: use the operator's image, or copy it to the folder"
    ):
        await build(builder, CHART, "chart")


async def test_what_nobody_thought_of_is_told_and_quotes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("hunter2")

    monkeypatch.setattr(build_worker, "manifests_of", broken)
    (answer,) = build_worker.work(Parse([Text("a.yaml", b"")]))
    assert answer == Failed("", 0, "the build failed because of a bug in Syncline (KeyError): please report it")


async def test_versions_of_tools_and_libraries_are_part_of_what_a_build_depends_on() -> None:
    assert "minijinja" in tool_versions()
    assert all(f"{tool} " in tool_versions() for tool in ("helm", "kustomize", "sops"))
    assert "none" not in tool_versions()
