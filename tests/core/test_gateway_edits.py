"""What the operator commits of what a pod asks for: only files of its own plan, in watched paths, within limits."""

from typing import Any

import pytest
from tests.core.gateway_world import COMMIT, composed, links, mapped, mapping, pod, tree

from syncline.core.edit_paths import EditRules, path_clash
from syncline.core.gateway_edits import (
    EditsRefused,
    accept_edits,
    author_of,
    branch_problem,
    commit_message,
    is_followed,
    target_branch,
)
from syncline.core.gateway_plan import MAX_BLOB_BYTES, ChangedFile, ChangeRequest, GatewayPlan

BACK = {"enabled": True, "watchPaths": ["projects/**", "config/**"], "targetBranch": "edits/{{ gateway.name }}"}
TREE = tree(
    "projects/a/view.json",
    "projects/a/code.py",
    "gateways/site/config/x.json",
    "gateways/other/config/x.json",
    "shared/one.txt",
)
MAPPINGS = (
    mapping("projects", "projects"),
    mapping("gateways/{{ gateway.name }}/config", "config/resources/external"),
    mapping("shared/one.txt", "projects/a/one.txt"),
    mapping("missing", "projects/missing", required=False),
)


def plan(*mappings: dict[str, Any], back: dict[str, Any] | None = None, **more: Any) -> GatewayPlan:
    given = mapped(*(mappings or MAPPINGS), bidirectional={**BACK, **(back or {})}, **more)
    found = composed(given, TREE, pod(gateway_name="site"))
    assert found.action == "Publish", found.message
    return found


def request(given: GatewayPlan, *files: ChangedFile | str) -> ChangeRequest:
    changed = tuple(ChangedFile(one, 5) if isinstance(one, str) else one for one in files)
    return ChangeRequest(given.id, given.commit, changed)


def places(given: GatewayPlan, *files: ChangedFile | str) -> list[str]:
    return [one.place for one in accept_edits(given, request(given, *files))]


def refusal(given: GatewayPlan, *files: ChangedFile | str) -> EditsRefused:
    with pytest.raises(EditsRefused) as refused:
        accept_edits(given, request(given, *files))
    return refused.value


def test_files_go_back_to_where_they_came_from() -> None:
    assert places(
        plan(),
        "projects/a/view.json",
        "projects/new/deep/view.json",
        "config/resources/external/x.json",
        "config/resources/external/y/z.json",
        "projects/a/one.txt",
        ChangedFile("projects/a/code.py", deleted=True),
    ) == [
        "projects/a/view.json",
        "projects/new/deep/view.json",
        "gateways/site/config/x.json",
        "gateways/site/config/y/z.json",
        "shared/one.txt",
        "projects/a/code.py",
    ]


def test_the_most_precise_mapping_gets_a_new_file() -> None:
    given = plan(mapping("gateways/other", "."), mapping("projects", "projects"))
    assert places(given, "projects/new.json", "config/new.json") == [
        "projects/new.json",
        "gateways/other/config/new.json",
    ]


ATTACKS = {
    "traversal": ("projects/../../etc/passwd", "empty name, . or .."),
    "absolute": ("/etc/passwd", "not relative"),
    "control characters": ("projects/a\nb", "control character"),
    "a folder that is not watched": ("shared/one.txt", "not in bidirectional.watchPaths"),
    "the folder of another gateway": ("gateways/other/config/x.json", "not in bidirectional.watchPaths"),
    "no mapping": ("config/elsewhere.json", "no mapping has its folder"),
    "a mapping without a source": ("projects/../projects/x", "empty name"),
    "below a file": ("projects/a/one.txt/x", "a file and a folder"),
    "keys of the gateway": ("config/ignition/keys/a", "belongs to the gateway"),
    "its cache": ("projects/.resources/a", "belongs to the gateway"),
    "the agent's own": ("projects/.syncline/manifest.json", "belongs to the gateway"),
    "its identity": ("projects/a/.uuid", "belongs to the gateway"),
    "workflows": ("projects/.github/workflows/x.yml", "hidden files"),
    "git's own": ("projects/.git/config", "is excluded"),
    "git's own by another name": ("projects/GIT~1/config", "hidden files"),
    "modules": ("projects/.gitmodules", "hidden files"),
    "pipelines": ("projects/a/Jenkinsfile", "build systems"),
    "a key by its name": ("projects/a/server.key", "credentials"),
    "case": ("projects/a/VIEW.json", "upper and lower case"),
    "case of a folder": ("projects/A/new.json", "upper and lower case"),
    "a folder as a file": ("projects/a", "a file and a folder"),
    "a file as a folder": ("projects/a/view.json/x", "a file and a folder"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_paths_of_a_hostile_pod(attack: str) -> None:
    path, why = ATTACKS[attack]
    refused = refusal(plan(), path)
    assert why in str(refused)
    assert refused.status == 422


def test_a_whole_repository_that_is_mapped_takes_no_hidden_files() -> None:
    given = plan(mapping(".", "."), back={"watchPaths": ["**"]})
    assert places(given, "notes/readme.md") == ["notes/readme.md"]
    for path in (".github/workflows/x.yml", ".gitlab-ci.yml", "a/.hidden", "Jenkinsfile", ".gitattributes"):
        assert "hidden files" in str(refusal(given, path))


def test_what_is_excluded_is_not_taken() -> None:
    given = plan(back={"guardrails": {"excludePatterns": ["*.jar", "projects/tmp/"]}}, excludePatterns=["*.bak"])
    for path in ("projects/a/x.jar", "projects/tmp/deep/x", "projects/a/x.bak"):
        assert "is excluded" in str(refusal(given, path))


def test_what_was_rendered_is_not_taken() -> None:
    rendered = (
        plan(mapping("projects", "projects", template=True)),
        plan(mapping("projects", "projects", patches=[{"file": "**/*.json", "set": {"a": "1"}}])),
        plan(normalize={"fields": [{"jsonPath": ".a", "valueTemplate": "b"}]}),
    )
    for given in rendered:
        assert "cannot be undone" in str(refusal(given, "projects/a/view.json"))
        assert "cannot be undone" in str(refusal(given, "projects/a/new.json"))
    assert places(rendered[2], "projects/a/code.py") == ["projects/a/code.py"]
    system = plan(mapping("projects", "config"), normalize={"systemName": True})
    assert "cannot be undone" in str(refusal(system, "config/ignition/system-properties/config.json"))


def test_sizes_and_counts_are_limited() -> None:
    given = plan(back={"guardrails": {"maxFileSize": "1Ki", "maxFilesPerPR": 2}})
    assert places(given, ChangedFile("projects/a/view.json", 1024))
    assert refusal(given, ChangedFile("projects/a/view.json", 1025)).status == 413
    assert refusal(given, ChangedFile("projects/a/view.json", -1)).status == 413
    assert refusal(given, *(f"projects/{number}" for number in range(3))).status == 413
    large = plan(back={"guardrails": {"maxFileSize": "10Gi"}})
    assert refusal(large, ChangedFile("projects/a/view.json", MAX_BLOB_BYTES + 1)).status == 413


def test_one_file_is_named_once() -> None:
    assert refusal(plan(), "projects/a/view.json", "projects/a/view.json").status == 400
    both = plan(mapping("projects", "projects"), mapping("projects", "config/copy"))
    assert refusal(both, "projects/new.json", "config/copy/new.json").status == 400


def test_only_files_of_the_commit_are_deleted() -> None:
    assert "does not have the file" in str(refusal(plan(), ChangedFile("projects/new.json", deleted=True)))


def test_a_deleted_file_makes_room() -> None:
    given = plan()
    assert places(given, ChangedFile("projects/a/view.json", deleted=True), "projects/a/View.json")


def test_an_old_plan_is_told() -> None:
    given = plan()
    for stale in (ChangeRequest("other", given.commit, ()), ChangeRequest(given.id, "0" * 40, ())):
        with pytest.raises(EditsRefused) as refused:
            accept_edits(given, stale)
        assert refused.value.status == 409
    off = composed(mapped(*MAPPINGS), TREE, pod(gateway_name="site"))
    assert refusal(off, "projects/a/view.json").status == 403


def test_a_plan_with_a_problem_takes_nothing() -> None:
    held = composed(mapped(*MAPPINGS, bidirectional=BACK), [*TREE, *links("projects/link")], pod(gateway_name="site"))
    assert held.action == "Hold"
    assert refusal(held, "projects/a/view.json").status == 403


VALUES = {"gateway.name": "gw-0", "namespace": "site"}


def test_the_branch_is_rendered() -> None:
    assert target_branch("edits/{{ gateway.name }}", VALUES, ("main",)) == "edits/gw-0"
    assert target_branch("edits/{{.GatewayName}}/{{.Namespace}}", VALUES, ()) == "edits/gw-0/site"
    assert target_branch("plain", {}, ("main", "v1.2.3")) == "plain"


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ gateway.name }}", "release"),
        ("{{ gateway.name }}/edits", "a"),
        ("edits/{{ gateway.name }}", "../main"),
        ("edits/{{ gateway.name }}", "a..b"),
        ("edits/{{ gateway.name }}", ".lock"),
        ("edits/{{ gateway.name }}", "x.lock"),
        ("edits/{{ gateway.name }}", "a b"),
        ("edits/{{ gateway.name }}", "a:refs/heads/main"),
        ("edits/{{ gateway.name }}", ""),
        ("edits/{{ gateway.name }}", "-f"),
        ("edits/{{ gateway.name }}", "@{u}"),
        ("edits/{{ gateway.name }}", "\N{RIGHT-TO-LEFT OVERRIDE}x"),
        ("edits/{{ gateway.name }}", "x" * 300),
        ("ma{{ gateway.name }}", "in"),
        ("Ma{{ gateway.name }}", "in"),
        ("refs/heads/{{ gateway.name }}", "x"),
        ("HE{{ gateway.name }}", "AD"),
        ("dead{{ gateway.name }}", "beef"),
        ("edits/{{ unknown }}", "x"),
        ("refs/tags/x", "x"),
    ],
)
def test_names_that_are_no_branch_for_edits(template: str, name: str) -> None:
    with pytest.raises(EditsRefused, match="targetBranch"):
        target_branch(template, {"gateway.name": name}, ("main",))


def test_the_followed_ref_is_known_in_any_form() -> None:
    assert is_followed("main", ("main",))
    assert is_followed("main", ("", "refs/heads/MAIN"))
    assert not is_followed("main", ("main2", "refs/tags/main"))
    assert branch_problem("a/b-c_d.e") == ""


def test_the_commit_says_where_it_comes_from_and_a_pod_writes_no_line_of_it() -> None:
    given = composed(
        mapped(*MAPPINGS, bidirectional=BACK), TREE, pod(gateway_name="x\n\nSigned-off-by: boss <b@example.com>")
    )
    edits = accept_edits(
        plan(), request(plan(), "projects/a/view.json", ChangedFile("projects/a/code.py", deleted=True))
    )
    text = commit_message(given, "site", "gw-0", edits, limit=1)
    assert text.split("\n")[0] == "Edits on gateway x--Signed-off-by- boss -b@example.com: 2 files"
    assert "- written: projects/a/view.json\n- and 1 more" in text
    assert f"Base-Commit: {COMMIT}" in text
    assert not any(line.startswith("Signed-off-by") for line in text.split("\n"))
    assert author_of(given, "site") == ("gateway x--Signed-off-by- boss -b@example.com", "gateway@site.invalid")


def test_new_files_are_looked_for_where_they_have_a_place() -> None:
    assert EditRules(plan()).folders() == ("config/resources/external", "projects")
    assert EditRules(plan(back={"watchPaths": ["projects/a/*.json"]})).folders() == ("projects/a",)
    assert EditRules(plan(back={"watchPaths": ["*.json"]})).folders() == ("config/resources/external", "projects")
    assert EditRules(plan(mapping("projects", "."), back={"watchPaths": ["**"]})).folders() == ("",)


def test_a_clash_that_was_there_before_is_not_told() -> None:
    assert path_clash(["b"], [], ["a", "A"]) == ""
    assert path_clash([], ["a"], ["a", "A"]) == ""
