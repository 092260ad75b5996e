"""The profile of a gateway: from `sync.profiles`, or from the annotations of its pod."""

from typing import Any

import pytest
from tests.core.gateway_world import mapped, mapping, pod, spec

from syncline.api.ignition_annotations import NAME_LABEL, POD_INDEX_LABEL
from syncline.api.ignition_files import DEFAULT_EXCLUDES
from syncline.core.gateway_plan import JsonPatch
from syncline.core.gateway_profiles import FileMapping, ProfileError, ResolvedProfile, resolve_profile

PROJECTS = mapping("projects", "projects")
SHARED = {
    "externalResources": {"enabled": True, "source": "shared/external"},
    "scripts": {"enabled": True, "source": "shared/scripts", "destPath": "ignition/script-python/exchange"},
    "udts": {"enabled": True, "source": "shared/udts"},
}


def pairs(profile: ResolvedProfile) -> list[tuple[str, str]]:
    return [(one.source, one.destination) for one in profile.mappings]


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (pod("site-0", {NAME_LABEL: "ignition"}, gateway_name="site"), "site"),
        (pod("site-0", {NAME_LABEL: "ignition"}), "ignition"),
        (pod("site-0"), "site-0"),
        (pod("site-0", {NAME_LABEL: "ignition"}, gateway_name=""), "ignition"),
    ],
)
def test_a_gateway_has_the_name_of_its_annotation_else_its_label_else_its_pod(facts: Any, name: str) -> None:
    assert facts.name == name


@pytest.mark.parametrize(
    ("name", "labels", "ordinal"),
    [
        ("site-gateway-0", {}, 0),
        ("site-gateway-12", {}, 12),
        ("site-gateway-12", {POD_INDEX_LABEL: "3"}, 3),
        ("site-gateway-12", {POD_INDEX_LABEL: "three"}, 12),
        ("site-7f9c8d-x2k4p", {}, 0),
        ("site", {}, 0),
        ("site-99999999999999", {}, 0),
    ],
)
def test_the_ordinal_is_the_index_of_the_stateful_set_else_the_number_at_the_end(
    name: str, labels: dict[str, str], ordinal: int
) -> None:
    assert pod(name, labels).ordinal == ordinal


def test_a_pod_without_an_annotation_has_the_profile_default() -> None:
    given = spec(sync={"profiles": {"default": {"mappings": [PROJECTS]}, "area": {"mappings": [PROJECTS]}}})
    assert (resolve_profile(given, pod()).name, resolve_profile(given, pod(profile="area")).name) == ("default", "area")


def test_v0_6_1_a_missing_profile_is_a_clear_error_and_no_crash_loop() -> None:
    given = spec(sync={"profiles": {"area": {"mappings": [PROJECTS]}, "site": {"mappings": [PROJECTS]}}})
    with pytest.raises(ProfileError, match=r"pod site-gateway-0 names 'other'.*\(area, site\), or add it") as named:
        resolve_profile(given, pod(profile="other"))
    with pytest.raises(ProfileError, match=r"has no annotation .*/profile, and its profile would be 'default'") as none:
        resolve_profile(given, pod())
    assert (named.value.reason, none.value.reason) == ("ProfileNotFound", "ProfileNotFound")


def test_a_profile_that_is_named_is_not_replaced_by_annotations() -> None:
    with pytest.raises(ProfileError, match=r"\(none\)"):
        resolve_profile(spec(), pod(profile="site", service_path="services/site"))


def test_settings_of_a_profile_go_before_those_of_all_profiles() -> None:
    defaults = {
        "vars": {"site": "7", "zone": "a"},
        "excludePatterns": ["*.bak"],
        "designerSessionPolicy": "fail",
        "dryRun": True,
        "paused": True,
    }
    plain = {"mappings": [PROJECTS]}
    own = {
        **plain,
        "vars": {"zone": "b"},
        "excludePatterns": ["*.tmp"],
        "designerSessionPolicy": "proceed",
        "dryRun": False,
        "paused": False,
    }
    given = spec(sync={"defaults": defaults, "profiles": {"default": plain, "own": own}}, siteNumber="3")
    first, second = resolve_profile(given, pod()), resolve_profile(given, pod(profile="own"))
    assert (first.variables, second.variables) == (
        {"siteNumber": "3", "site": "7", "zone": "a"},
        {"siteNumber": "3", "site": "7", "zone": "b"},
    )
    assert (first.exclude, second.exclude) == (
        (*DEFAULT_EXCLUDES, "*.bak"),
        (*DEFAULT_EXCLUDES, "*.bak", "*.tmp"),
    )
    assert (first.designer_sessions, second.designer_sessions) == ("fail", "proceed")
    assert (first.dry_run, first.paused, second.dry_run, second.paused) == (True, True, False, False)


def test_without_a_policy_for_sessions_that_of_the_spec_counts() -> None:
    given = mapped(PROJECTS, ignition={"designerSessionPolicy": "fail"})
    assert resolve_profile(given, pod()).designer_sessions == "fail"
    assert resolve_profile(mapped(PROJECTS), pod()).designer_sessions == "wait"


def test_all_properties_of_a_mapping_are_kept_in_order() -> None:
    patches = [{"file": "**/config.json", "set": {"a.b": "1"}}]
    given = mapped(mapping("a", "b", type="dir", required=True, template=True, patches=patches), mapping("c", "d"))
    assert resolve_profile(given, pod()).mappings == (
        FileMapping(
            source="a",
            destination="b",
            type="dir",
            required=True,
            template=True,
            patches=(JsonPatch(set={"a.b": "1"}, file="**/config.json"),),
        ),
        FileMapping(source="c", destination="d"),
    )


def test_v0_4_1_a_variable_with_a_dash_is_refused_before_a_template_uses_it() -> None:
    given = spec(sync={"defaults": {"vars": {"site-name": "a"}}, "profiles": {"default": {"mappings": [PROJECTS]}}})
    with pytest.raises(ProfileError, match="the variable 'site-name' cannot be used in templates") as error:
        resolve_profile(given, pod())
    assert error.value.reason == "InvalidVariable"


def test_without_profiles_the_folder_of_the_service_is_mapped() -> None:
    assert pairs(resolve_profile(spec(), pod(service_path="services/site/"))) == [
        ("services/site/projects", "projects"),
        ("services/site/config/resources/external", "config/resources/external"),
        ("services/site/config/resources/core", "config/resources/core"),
    ]


def test_the_root_of_the_repository_can_be_the_service() -> None:
    assert pairs(resolve_profile(spec(), pod(service_path=".")))[0] == ("./projects", "projects")


def test_a_deployment_mode_is_a_collection_of_its_own() -> None:
    """The first build copied it into `core`, which is not how modes of Ignition work."""
    found = pairs(resolve_profile(spec(), pod(service_path="services/site", deployment_mode="prd-cloud")))
    assert found[-1] == ("services/site/config/resources/prd-cloud", "config/resources/prd-cloud")
    assert len(pairs(resolve_profile(spec(), pod(service_path="a", deployment_mode="core")))) == 3


def test_shared_folders_come_after_the_service_and_more_files_last() -> None:
    given = spec(shared=SHARED, additionalFiles=[{"source": "a.json", "dest": "b.json"}])
    found = resolve_profile(given, pod(service_path="services/site", tag_provider="edge"))
    assert pairs(found)[3:] == [
        ("shared/external", "config/resources/external"),
        ("shared/scripts", "projects/site/ignition/script-python/exchange"),
        ("shared/udts", "config/resources/core/ignition/tag-type-definition/edge"),
        ("a.json", "b.json"),
    ]
    assert [one.type for one in found.mappings] == ["dir"] * 6 + ["file"]


def test_the_tag_provider_is_default_without_an_annotation() -> None:
    given = spec(shared={"udts": SHARED["udts"]})
    assert pairs(resolve_profile(given, pod())) == [
        ("shared/udts", "config/resources/core/ignition/tag-type-definition/default")
    ]


def test_what_is_not_enabled_is_not_mapped() -> None:
    disabled = {name: {**given, "enabled": False} for name, given in SHARED.items()}
    assert len(pairs(resolve_profile(spec(shared=disabled), pod(service_path="a")))) == 3


def test_scripts_need_a_project() -> None:
    for facts in (pod(), pod(service_path=".")):
        with pytest.raises(ProfileError, match="goes to the project of gateway") as error:
            resolve_profile(spec(shared={"scripts": SHARED["scripts"]}), facts)
        assert error.value.reason == "ProjectUnknown"


def test_a_gateway_that_nothing_is_mapped_to_is_told_what_to_write() -> None:
    with pytest.raises(ProfileError, match=r"write a profile in spec\.sync\.profiles, or the annotation") as error:
        resolve_profile(spec(), pod())
    assert error.value.reason == "NoMappings"


@pytest.mark.parametrize("name", ["deployment_mode", "tag_provider"])
@pytest.mark.parametrize("value", ["../core", "a/b", "/etc", "..", "{{ gateway.name }}", "a\nb", " a", "a "])
def test_a_name_in_an_annotation_is_one_name(name: str, value: str) -> None:
    with pytest.raises(ProfileError, match="write one name of letters") as error:
        resolve_profile(spec(shared=SHARED), pod(service_path="services/site", **{name: value}))
    assert error.value.reason == "InvalidAnnotation"


def test_a_pod_can_exclude_more() -> None:
    profile = resolve_profile(mapped(PROJECTS), pod(exclude_patterns=" **/tests/ , *.bak,,*.bak"))
    assert profile.exclude == (*DEFAULT_EXCLUDES, "**/tests/", "*.bak")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("exclude_patterns", ",".join(map(str, range(51)))),
        ("exclude_patterns", "a" * 4097),
        ("service_path", "a" * 4097),
    ],
)
def test_annotations_are_bounded(annotation: str, value: str) -> None:
    with pytest.raises(ProfileError) as error:
        resolve_profile(mapped(PROJECTS), pod(**{annotation: value}))
    assert error.value.reason == "InvalidAnnotation"
    assert len(error.value.message) < 500


@pytest.mark.parametrize(
    ("normalize", "annotations", "template"),
    [
        (False, {}, None),
        (True, {}, "{{ gateway.name }}"),
        (True, {"system_name": "fixed"}, "fixed"),
        (
            True,
            {"system_name_template": "site{{.SiteNumber}}-{{.GatewayName}}"},
            "site{{.SiteNumber}}-{{.GatewayName}}",
        ),
        (False, {"system_name": "fixed"}, "fixed"),
    ],
)
def test_the_system_name_is_that_of_the_gateway_or_of_an_annotation(
    normalize: bool, annotations: dict[str, str], template: str | None
) -> None:
    given = mapped(PROJECTS, normalize={"systemName": normalize})
    assert resolve_profile(given, pod(**annotations)).system_name == template


def test_only_ignition_gateways_have_rules_of_their_own() -> None:
    assert resolve_profile(mapped(PROJECTS), pod()).is_ignition
    assert not resolve_profile(mapped(PROJECTS, apply={"type": "None"}), pod()).is_ignition
