from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncline import deploy
from syncline.api.crd import schema
from syncline.api.kinds import ALL_KINDS, Kind
from syncline.deploy import chart, generate, reference
from syncline.deploy.workload import deployment
from syncline.git import Limits

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
# Only their names: to generate them takes a second, in each worker and before the first test.
PRESENT = [
    "deploy/crds.yaml",
    "deploy/syncline.yaml",
    *(f"{chart.FOLDER}/{name}" for name in ("Chart.yaml", "values.yaml", "values.schema.json", "README.md")),
    *(f"{chart.FOLDER}/files/{name}.yaml" for name in ("rbac", "injection", "policies")),
    *(f"{chart.FOLDER}/files/crds/{kind.plural}.yaml" for kind in ALL_KINDS),
    *(f"docs/reference/{path.name}" for path in sorted((ROOT / "docs/reference").iterdir())),
]


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generate.files()


@pytest.mark.parametrize("name", PRESENT)
def test_what_is_generated_is_current(files: dict[str, str], name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == files[name], "run: make generate"


def test_all_generated_files_are_there_and_no_page_of_a_kind_that_is_gone(files: dict[str, str]) -> None:
    assert set(PRESENT) == files.keys()


def test_generating_writes_the_files_below_a_folder(files: dict[str, str], tmp_path: Path) -> None:
    generate.main(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == files.keys()


def test_yaml_says_what_the_manifests_say_without_aliases() -> None:
    manifests = deploy.everything()
    text = deploy.to_yaml(manifests)
    assert list(yaml.safe_load_all(text)) == manifests
    assert "&id" not in text


def test_a_rule_of_several_lines_stays_so_in_yaml() -> None:
    assert deploy.to_yaml([{"rule": "a\n|| b"}]) == "---\nrule: |-\n  a\n  || b\n"


def test_an_object_is_listed_after_those_that_it_needs() -> None:
    order = [manifest["kind"] for manifest in deploy.everything()]
    assert order[0] == "Namespace"
    assert order.index("CustomResourceDefinition") < order.index("ValidatingAdmissionPolicy")
    assert order.index("ServiceAccount") < order.index("ClusterRoleBinding")
    assert order[-1] == "Deployment"


def test_the_image_can_be_chosen() -> None:
    pod = deploy.everything("registry.example/syncline@sha256:0")[-1]["spec"]["template"]["spec"]
    assert [container["image"] for container in pod["containers"]] == ["registry.example/syncline@sha256:0"]


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.kind)
def test_the_reference_tells_every_field_and_every_message(kind: Kind) -> None:
    page = reference.page(kind).replace(r"\*", "*").replace(r"\_", "_")
    for name, found in leaves(schema(kind)["properties"]["spec"]):
        assert found in page, name


def leaves(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        yield from ((key, f"{key}`") for key in node.get("properties", ()))
        for key, value in node.items():
            yield from leaves(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from leaves(value, name)
    elif name in {"description", "message"}:
        yield name, node


def test_the_pod_has_room_for_everything_at_its_limit() -> None:
    (pod,) = [each["spec"]["template"]["spec"] for each in deployment() if each["kind"] == "Deployment"]
    (container,) = pod["containers"]
    memory = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    volumes = {each["name"]: int(each["emptyDir"]["sizeLimit"].removesuffix("Mi")) for each in pod["volumes"]}
    limits = Limits()
    operator = 256 + limits.held_at_most // MIB
    git = limits.process_memory_at_most // MIB
    children = 3 * (96 + 48) + 3 * (136 + 48 + 200)
    assert memory >= operator + git + children + volumes["tmp"]
    assert volumes["cache"] >= limits.disk_at_most // MIB
    # A tenant's half is enough for the largest repository, and for the longest list.
    assert limits.cache_bytes // 2 >= limits.repository_bytes
    assert limits.listings_bytes // 2 >= limits.listing_bytes


def test_what_the_pod_has_room_for_is_documented() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for size in (Limits().held_at_most, Limits().reads * Limits().local_memory_bytes):
        assert f"{size // MIB} MiB" in text
