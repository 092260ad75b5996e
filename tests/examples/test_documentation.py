"""What the documentation says, held against the code and a real API server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import REGISTRY
from tests.examples import reasons
from tests.examples.scene import ROOT

import syncline.kube.metrics
import syncline.telemetry.metrics
from syncline.controllers.configmapsync import RESOURCE as SYNCS
from syncline.deploy import Manifest
from syncline.kube import errors
from syncline.sandbox import RequestError, Sandbox

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GUIDE = ROOT / "docs" / "configmapsync.md"
OPERATIONS = ROOT / "docs" / "operations.md"
# Names of several words in the source that are no reasons, and one reason's neighbour that looks like one.
OTHER_NAMES = {"ConfigMap", "DoesNotExist", "DownstreamWins", "LastWriteWins", "NotIn", "OneWay", "SourceWins"}
OTHER_NAMES |= {"DestinationWins", "UpstreamWins", "Overwritten"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets() -> Iterator[tuple[Path, Manifest]]:
    for page in PAGES:
        for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
            if language == "yaml":
                yield from ((page, document) for document in yaml.safe_load_all(text))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def explained() -> set[str]:
    _, _, section = GUIDE.read_text(encoding="utf-8").partition("\n## Every reason, and what to do\n")
    return set(first_cells(section))


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("snippet", [pytest.param(found, id=page_id(page)) for page, found in snippets()])
def test_every_snippet_is_taken_by_the_api_server(sandbox: Sandbox, snippet: Manifest) -> None:
    assert (snippet["apiVersion"], snippet["kind"]) == (SYNCS.api_version, SYNCS.kind)
    snippet = {**snippet, "metadata": {**snippet["metadata"], "namespace": "default"}}
    sandbox.request("POST", f"{SYNCS.path('default')}?dryRun=All&fieldValidation=Strict", snippet)


@pytest.mark.usefixtures("crds")
def test_a_snippet_with_an_unknown_field_would_be_noticed(sandbox: Sandbox) -> None:
    spec = {"sourceNamespace": "a", "configMapName": "b", "destinationNamespace": "c", "destination": "d"}
    wrong = {
        "apiVersion": SYNCS.api_version,
        "kind": SYNCS.kind,
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": spec,
    }
    with pytest.raises(RequestError, match=r'unknown field "spec\.destination"'):
        sandbox.request("POST", f"{SYNCS.path('default')}?dryRun=All&fieldValidation=Strict", wrong)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_reason_is_explained() -> None:
    source = ROOT / "src" / "syncline"
    assert reasons.given(source) - OTHER_NAMES - explained() == set()
    assert reasons.words(source) - OTHER_NAMES - explained() == set()


def test_no_reason_is_invented() -> None:
    of_the_server = {name for name in dir(errors) if isinstance(getattr(errors, name), type)}
    assert explained() - reasons.given(ROOT / "src" / "syncline") - of_the_server == set()


def test_every_reason_is_explained_once() -> None:
    _, _, section = GUIDE.read_text(encoding="utf-8").partition("\n## Every reason, and what to do\n")
    assert sorted(first_cells(section)) == sorted(explained())


def test_every_metric_is_listed() -> None:
    assert syncline.kube.metrics
    assert syncline.telemetry.metrics
    counted = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in REGISTRY.collect()
        if family.name.startswith("syncline_")
    }
    _, _, section = OPERATIONS.read_text(encoding="utf-8").partition("\n## Metrics\n")
    listed = {name for name in first_cells(section) if name.startswith("syncline_")}
    assert listed == counted


def test_every_flag_of_the_operator_is_listed() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "syncline", "run", "--help"], capture_output=True, text=True, check=True
    )
    flags = set(re.findall(r"--[a-z-]+", shown.stdout)) - {"--help"}
    _, _, section = OPERATIONS.read_text(encoding="utf-8").partition("\n## Flags\n")
    section, _, _ = section.partition("\n## ")
    assert {flag for row in re.findall(r"^\| (.+?) \|", section, re.MULTILINE) for flag in _flags(row)} == flags


def _flags(cell: str) -> list[str]:
    return re.findall(r"--[a-z-]+", cell)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_file_and_command_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:[a-z]+/)+[a-z_]+\.py)`", text)
    package = ROOT / "src" / "syncline"
    assert [name for name in files if not (package / name).exists() and not (ROOT / name).exists()] == []
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    called = re.findall(r"(?:`|^    )(?:\w+=\S+ )?make ([a-z]+)", text, re.MULTILINE)
    assert [name for name in called if name not in targets] == []
