"""The files of a gateway: what a commit has, what is mapped, and what is refused."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.gateway_world import (
    COMMIT,
    EXECUTABLE,
    FILE,
    LINK,
    REF,
    SUBMODULE,
    mapped,
    mapping,
    placed,
    planned,
    pod,
    reasons,
    spec,
    tree,
)
from tests.sampling import thorough

from syncline.api.ignitionsync import ProtectedPath
from syncline.core import gateway_files
from syncline.core.gateway_files import MAX_PROBLEMS, FileEntry, normalized, plan_files, relative_to
from syncline.core.gateway_plan import MAX_BLOB_BYTES, MAX_PLAN_FILES, PlannedFile, PlannedMapping
from syncline.core.gateway_profiles import FileMapping, ResolvedProfile
from syncline.core.protected_paths import PROTECTED, is_protected

PROJECTS = mapping("projects", "projects")


def test_a_folder_is_mapped_with_all_that_is_in_it() -> None:
    files = planned(mapped(PROJECTS), tree("README.md", "projects/a/project.json", "projects/b.json", "projects2/c"))
    assert placed(files) == {
        "projects/a/project.json": "projects/a/project.json",
        "projects/b.json": "projects/b.json",
    }
    assert files.mappings == (PlannedMapping("projects", "projects"),)
    assert (files.problems, files.left_out, files.missing) == ((), (), ())


def test_a_file_keeps_its_blob_its_size_and_whether_it_is_executable() -> None:
    entries = [FileEntry("projects/run.sh", "b1", 42, EXECUTABLE)]
    assert planned(mapped(PROJECTS), entries).files == (
        PlannedFile("projects/run.sh", "b1", 42, mapping=0, executable=True),
    )


def test_paths_are_templates_in_both_spellings() -> None:
    given = spec(
        sync={
            "defaults": {"vars": {"site": "7"}},
            "profiles": {
                "default": {
                    "mappings": [
                        mapping("gateways/{{ gateway.name }}", "config/{{.Namespace}}"),
                        mapping("sites/{{ vars.site }}.json", "{{ labels.zone }}/site.json"),
                    ]
                }
            },
        }
    )
    facts = pod(labels={"zone": "east"}, gateway_name="blue")
    assert placed(planned(given, tree("gateways/blue/a", "gateways/red/b", "sites/7.json"), facts)) == {
        "config/plant-1/a": "gateways/blue/a",
        "east/site.json": "sites/7.json",
    }


def test_a_template_without_a_value_publishes_nothing() -> None:
    files = planned(mapped(mapping("a/{{ vars.other }}", "b"), PROJECTS), tree("projects/x"))
    assert reasons(files) == ["InvalidTemplate"]
    assert "source 'a/{{ vars.other }}': {{ vars.other }} is no variable here" in files.problems[0].message


def test_a_later_mapping_replaces_files_of_an_earlier_one() -> None:
    given = mapped(mapping("base", "config"), mapping("overlay", "config"), mapping("one.json", "config/b.json"))
    files = planned(given, tree("base/a.json", "base/b.json", "base/c.json", "overlay/a.json", "one.json"))
    assert placed(files) == {
        "config/a.json": "overlay/a.json",
        "config/b.json": "one.json",
        "config/c.json": "base/c.json",
    }
    assert [file.mapping for file in files.files] == [1, 2, 0]


def test_v0_5_1_the_folder_of_a_mapping_can_be_within_that_of_another() -> None:
    given = mapped(mapping("all", "config/resources"), mapping("core", "config/resources/core"))
    files = planned(given, tree("all/core/a", "all/x", "core/b"))
    assert placed(files) == {
        "config/resources/core/a": "all/core/a",
        "config/resources/core/b": "core/b",
        "config/resources/x": "all/x",
    }


@pytest.mark.parametrize("destination", ["projects", "projects/", "./projects", "projects//", "./projects/./"])
def test_bug_3_a_slash_at_the_end_of_a_destination_changes_nothing(destination: str) -> None:
    files = planned(mapped(mapping("projects/", destination)), tree("projects/a"))
    assert placed(files) == {"projects/a": "projects/a"}
    assert files.mappings == (PlannedMapping("projects", "projects"),)


@pytest.mark.parametrize("destination", [".", "./", "././"])
def test_bug_3_the_data_folder_itself_can_be_the_destination(destination: str) -> None:
    files = planned(mapped(mapping("data", destination)), tree("data/projects/a", "data/b"))
    assert placed(files) == {"b": "data/b", "projects/a": "data/projects/a"}
    assert files.mappings == (PlannedMapping("data", ""),)
    assert relative_to(files.mappings[0].destination, "projects/a") == "projects/a"


@pytest.mark.parametrize(
    ("destination", "place"),
    [(".", "factory.json"), ("./", "factory.json"), ("other.json", "other.json"), ("config/", "config/factory.json")],
)
def test_v0_4_6_a_file_at_the_root_does_not_make_the_data_folder_managed(destination: str, place: str) -> None:
    files = planned(mapped(mapping("shared/factory.json", destination)), tree("shared/factory.json"))
    assert placed(files) == {place: "shared/factory.json"}
    assert files.mappings == (PlannedMapping("shared/factory.json", place),)
    assert relative_to(place, place) == ""
    assert relative_to(place, "db/config.idb") is None


def test_the_whole_repository_can_be_mapped() -> None:
    assert placed(planned(mapped(mapping(".", ".")), tree("a", "b/c"))) == {"a": "a", "b/c": "b/c"}


def test_an_empty_repository_has_no_files() -> None:
    files = planned(mapped(mapping(".", ".")), [])
    assert (files.files, files.problems, files.missing) == ((), (), ())


def test_a_source_that_is_not_there_is_reported_and_prunes_nothing() -> None:
    files = planned(mapped(mapping("other", "config/"), PROJECTS), tree("projects/a"))
    assert files.mappings[0] == PlannedMapping("other", "config", missing=True)
    assert (files.missing, files.problems) == (("other",), ())
    assert [file.mapping for file in files.files] == [1]


def test_a_required_source_that_is_not_there_publishes_nothing() -> None:
    files = planned(mapped(mapping("other", "config", required=True), PROJECTS), tree("projects/a"))
    assert reasons(files) == ["SourceMissing"]
    assert "the commit has no file or folder 'other', which is required" in files.problems[0].message


@pytest.mark.parametrize(("source", "type_"), [("projects", "file"), ("a.json", "dir"), (".", "file")])
def test_a_source_of_another_type_publishes_nothing(source: str, type_: str) -> None:
    files = planned(mapped(mapping(source, "x", type=type_)), tree("projects/a", "a.json"))
    assert reasons(files) == ["TypeMismatch"]


@pytest.mark.parametrize(
    "path",
    ["../etc", "a/../../b", "..", "{{ vars.root }}etc", "{{ vars.up }}/x", "{{ gateway.name }}", "{{ vars.none }}"],
)
@pytest.mark.parametrize("field", ["source", "destination"])
def test_no_path_leaves_the_repository_or_the_data_folder(field: str, path: str) -> None:
    one = {**PROJECTS, field: path}
    variables = {"up": "..", "none": " ", "root": "/"}
    given = spec(sync={"defaults": {"vars": variables}, "profiles": {"default": {"mappings": [one]}}})
    files = planned(given, tree("projects/a"), pod(gateway_name="x/../../y"))
    assert (reasons(files), files.files) == (["InvalidPath"], ())
    assert 'without ".."' in files.problems[0].message


def test_an_annotation_cannot_lead_out_either() -> None:
    files = planned(spec(), tree("projects/a"), pod(service_path="../../etc"))
    assert set(reasons(files)) == {"InvalidPath"}
    assert files.files == ()


def test_v0_6_0_a_symbolic_link_is_refused_wherever_it_is() -> None:
    """A link to a mount of credentials would be copied into the data folder."""
    entries = tree("projects/a", **{"projects/key": LINK, "link": LINK})
    for source in ("projects", "link", "projects/key", "link/inside", "projects/key/inside"):
        files = planned(mapped(mapping(source, "x")), entries)
        assert reasons(files) == ["Symlink"], source


def test_a_link_that_is_excluded_or_not_mapped_hurts_nobody() -> None:
    entries = tree("projects/a", **{"projects/key": LINK, "link": LINK})
    assert placed(planned(mapped(PROJECTS, excludePatterns=["projects/key"]), entries)) == {"projects/a": "projects/a"}


def test_a_submodule_is_refused() -> None:
    assert reasons(planned(mapped(PROJECTS), tree(**{"projects/lib": SUBMODULE}))) == ["Submodule"]


def test_a_file_has_a_limit() -> None:
    def sized(size: int) -> list[FileEntry]:
        return [FileEntry("projects/big", "b", size, FILE)]

    assert reasons(planned(mapped(PROJECTS), sized(MAX_BLOB_BYTES))) == []
    assert reasons(planned(mapped(PROJECTS), sized(MAX_BLOB_BYTES + 1))) == ["FileTooLarge"]


def test_the_files_of_a_gateway_have_a_limit() -> None:
    entries = tree(*(f"projects/{number:06}" for number in range(MAX_PLAN_FILES + 1)))
    assert reasons(planned(mapped(PROJECTS), entries)) == ["TooManyFiles"]
    assert reasons(planned(mapped(PROJECTS, excludePatterns=["000000"]), entries)) == []


@pytest.mark.parametrize(
    "name",
    [
        "a:b",
        "a?b",
        "a*b",
        'a"b',
        "a<b",
        "a>b",
        "a|b",
        "a`b",
        "a\\b",
        "a\x07b",
        "a\nb",
        "a\x7fb",
        "a.",
        "a ",
        " a",
        "n" * 256,
        "/".join(["n" * 200] * 6),
        "\\xff",
    ],
)
def test_a_forbidden_name_is_told_and_not_dropped(name: str) -> None:
    for path in (f"projects/{name}", f"projects/{name}/file.json"):
        files = planned(mapped(PROJECTS), tree(path, "projects/good"))
        assert reasons(files) == ["InvalidFileName"]
        assert repr(path) in files.problems[0].message


@pytest.mark.parametrize("name", [".gitignore", "My View", "ü.json", "a..b", "a@b", "a%b", "日本", "a'b", "{{ x }}"])
def test_other_names_are_taken_as_they_are(name: str) -> None:
    assert placed(planned(mapped(PROJECTS), tree(f"projects/{name}"))) == {f"projects/{name}": f"projects/{name}"}


def test_names_that_only_ignition_forbids_are_good_for_other_applications() -> None:
    given = mapped(PROJECTS, apply={"type": "None"})
    assert placed(planned(given, tree("projects/a:b?", "projects/c."))) != {}
    assert reasons(planned(given, tree("projects/a\nb"))) == ["InvalidFileName"]


@pytest.mark.parametrize(
    "paths",
    [
        ("projects/View.json", "projects/view.json"),
        ("projects/Site/a", "projects/site/b"),
        ("projects/stra\u00dfe", "projects/STRASSE"),
        ("projects/\u00e9", "projects/e\u0301"),
    ],
)
def test_paths_that_differ_only_in_case_or_form_are_refused(paths: tuple[str, ...]) -> None:
    files = planned(mapped(PROJECTS), tree(*paths))
    assert reasons(files) == ["CaseClash"]
    assert planned(mapped(PROJECTS, excludePatterns=[paths[0]]), tree(*paths)).problems == ()


def test_a_path_that_is_a_file_and_a_folder_is_refused() -> None:
    given = mapped(mapping("one.json", "config/a"), mapping("more", "config/a"))
    assert reasons(planned(given, tree("one.json", "more/b"))) == ["PathClash"]


def test_excludes_are_of_paths_in_the_data_folder() -> None:
    given = mapped(mapping("src", "projects"), excludePatterns=["projects/test/**", "*.bak", "**/docs/"])
    entries = tree("src/a", "src/test/b", "src/c.bak", "src/x/docs/d", "src/docsy")
    assert sorted(placed(planned(given, entries))) == ["projects/a", "projects/docsy"]


def test_git_files_and_the_cache_of_the_gateway_are_left_out_by_default() -> None:
    entries = tree("projects/a", "projects/.gitkeep", "projects/.resources/ab", "projects/x/.resources/cd")
    files = planned(mapped(PROJECTS), entries)
    assert (list(placed(files)), files.left_out) == (["projects/a"], ())


def test_the_cache_of_the_gateway_is_left_out_whatever_the_spec_says() -> None:
    entries = tree("projects/a", "projects/.resources/ab", "projects/.Resources/cd", "projects/x/.syncline/manifest")
    everything = mapped(PROJECTS, excludePatterns=[], unprotected=list(PROTECTED))
    another = mapped(PROJECTS, excludePatterns=[], apply={"type": "None"})
    assert [list(placed(planned(one, entries))) for one in (everything, another)] == [["projects/a"]] * 2


@pytest.mark.parametrize(
    "path",
    [
        ".uuid",
        "config/resources/core/x/.uuid",
        "config/ignition/keys/root.json",
        "config/ignition/tags/valueStore.idb",
        "config/local/a",
        "config/resources/local/keystore",
        "DB/config.idb",
        "var/ignition/journal",
        "jar-cache/x.jar",
        "metricsdb/m",
        "commissioning.json",
        ".ignition-seed-complete",
    ],
)
def test_what_belongs_to_the_gateway_is_left_out_and_named(path: str) -> None:
    files = planned(mapped(mapping("data", ".")), tree(f"data/{path}", "data/projects/a"))
    assert (list(placed(files)), files.left_out, files.problems) == (["projects/a"], (path,), ())


def test_what_belongs_to_the_gateway_can_be_written_if_the_spec_names_it() -> None:
    entries = tree("data/db/config.idb", "data/var/x", "data/x/.uuid")
    given = mapped(mapping("data", "."), unprotected=["db", ".uuid"])
    assert (sorted(placed(planned(given, entries))), planned(given, entries).left_out) == (
        ["db/config.idb", "x/.uuid"],
        ("var/x",),
    )


def test_other_applications_have_no_such_files() -> None:
    given = mapped(mapping("data", "."), apply={"type": "None"})
    assert sorted(placed(planned(given, tree("data/db/a", "data/var/x")))) == ["db/a", "var/x"]


def test_the_spec_can_name_exactly_what_is_protected() -> None:
    assert get_args(ProtectedPath) == PROTECTED


def test_problems_are_bounded() -> None:
    entries = tree(**{f"projects/{number}": LINK for number in range(1000)})
    files = planned(mapped(PROJECTS), entries)
    assert len(files.problems) == MAX_PROBLEMS


@pytest.mark.parametrize(
    ("path", "plain"),
    [("a/b", "a/b"), ("./a//b/", "a/b"), (".", ""), ("", ""), ("/a", None), ("a/..", None), ("a\0", None)],
)
def test_a_path_is_normalized_or_refused(path: str, plain: str | None) -> None:
    assert normalized(path) == plain


names = st.sampled_from(["a", "b", "A", "..", ".", "", "x.json", ".resources", "db", ".uuid", "é", "a:b"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
in_git = st.lists(st.sampled_from(["a", "b", "A", "x.json", ".resources", "db", "é", "a:b"]), min_size=1, max_size=4)


@st.composite
def commits(draw: st.DrawFn) -> list[FileEntry]:
    """A listing as Git can have it: no file is a folder of another."""
    found = draw(st.dictionaries(in_git.map("/".join), st.sampled_from([FILE, EXECUTABLE, LINK, SUBMODULE])))
    kept = {path: mode for path, mode in found.items() if not any(one.startswith(f"{path}/") for one in found)}
    return tree(**kept)


@thorough
@given(
    commits(),
    st.lists(st.tuples(paths, paths, st.sampled_from([None, "dir", "file"]), st.booleans()), min_size=1, max_size=4),
    st.lists(st.sampled_from(["*.json", "a/**", "**/b", "*"]), max_size=2),
)
def test_whatever_is_mapped_a_plan_never_leaves_the_folder_nor_touches_what_is_protected(
    entries: list[FileEntry], mappings: list[tuple[str, str, Any, bool]], excludes: list[str]
) -> None:
    listed = tuple(
        FileMapping(source=source, destination=place, type=type_, required=need)
        for source, place, type_, need in mappings
    )
    profile = ResolvedProfile(mappings=listed, exclude=tuple(excludes))
    files = plan_files(profile, pod(), REF, COMMIT, entries)
    known = {entry.blob: entry for entry in entries}
    for file in files.files:
        assert normalized(file.path) == file.path != ""
        assert not is_protected(file.path)
        assert known[file.blob].mode in (FILE, EXECUTABLE)
        assert relative_to(files.mappings[file.mapping].destination, file.path) is not None
        assert not files.mappings[file.mapping].missing
    found = [file.path for file in files.files]
    assert found == sorted(set(found))
    if not files.problems:
        assert len({path.casefold() for path in found}) == len(found)
        assert len(files.mappings) == len(mappings)
        assert not any(one.startswith(f"{path}/") for path in found for one in found)
    assert plan_files(profile, pod(), REF, COMMIT, entries) == files


def test_mappings_that_multiply_the_files_of_a_commit_end_where_a_plan_ends() -> None:
    """Whoever writes fifty mappings of a whole commit could have the operator plan five million files."""
    entries = [FileEntry(f"projects/{number}.json", "b", 1, FILE) for number in range(MAX_PLAN_FILES // 2)]
    many = [mapping("projects", f"copies/{number}") for number in range(50)]
    files = planned(mapped(*many), entries)
    assert reasons(files) == ["TooManyFiles"]
    assert len(files.mappings) == 3
    assert files.files == ()


def test_excluded_files_count_for_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_files, "MAX_LOOKED_AT", 100)
    entries = [FileEntry(f"projects/{number}.bak", "b", 1, FILE) for number in range(60)]
    excluding = {"sync": {"profiles": {"default": {"mappings": [PROJECTS, PROJECTS], "excludePatterns": ["*.bak"]}}}}
    files = planned(spec(**excluding), entries)
    assert reasons(files) == ["TooManyFiles"]
    assert "with excluded ones" in files.problems[0].message


def test_many_globs_for_many_long_paths_are_refused_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_files, "MAX_EXCLUDE_WORK", 10_000)
    entries = [FileEntry(f"projects/{'a' * 200}/{number}.json", "b", 1, FILE) for number in range(60)]
    globs = [f"**/*a*a*{number}*/**/x" for number in range(10)]
    excluding = {"sync": {"profiles": {"default": {"mappings": [PROJECTS], "excludePatterns": globs}}}}
    files = planned(spec(**excluding), entries)
    assert reasons(files) == ["TooManyFiles"]
    assert "takes too long" in files.problems[0].message
