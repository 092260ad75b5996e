"""The plan of a gateway: one id for one content, and a message where nothing is published."""

from typing import Any

import msgspec
from tests.core.gateway_world import COMMIT, REF, composed, mapped, mapping, planned, pod, spec, tree

from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.gateway_composition import compose_plan, describe_omissions, describe_problems, held_plan
from syncline.core.gateway_plan import (
    FieldValue,
    GatewayPlan,
    HttpApply,
    IgnitionApply,
    PlannedApply,
    PlannedCheck,
    PlannedReturn,
    PlannedSnapshots,
    SignalApply,
)
from syncline.core.gateway_profiles import resolve_profile
from syncline.core.protected_paths import PROTECTED

PROJECTS = mapping("projects", "projects")
TREE = tree("projects/a/project.json")
BACK = {"enabled": True, "watchPaths": ["projects/**"], "targetBranch": "changes"}


def plan(**more: Any) -> GatewayPlan:
    return composed(mapped(PROJECTS, **more), TREE)


def test_a_plan_has_all_that_the_agent_needs() -> None:
    found = composed(mapped(PROJECTS), TREE, pod(gateway_name="site"))
    assert (found.action, found.message, found.sync, found.gateway) == ("Publish", "", "plant", "site")
    assert (found.ref, found.commit) == (REF, COMMIT)
    assert [file.path for file in found.files] == ["projects/a/project.json"]
    assert found.apply == PlannedApply(ignition=IgnitionApply(8043, True, "wait"))
    assert found.rules.values == {
        "gateway.name": "site",
        "gateway.pod": "site-gateway-0",
        "gateway.ordinal": "0",
        "gateway.servicePath": "",
        "namespace": "plant-1",
        "sync.name": "plant",
        "ref": REF,
        "commit": COMMIT,
    }


def test_a_plan_survives_the_wire() -> None:
    given = plan(bidirectional=BACK, normalize={"fields": [{"jsonPath": ".a", "valueTemplate": "b"}]})
    assert msgspec.json.decode(msgspec.json.encode(given), type=GatewayPlan) == given


def test_equal_inputs_give_equal_ids_and_any_change_another() -> None:
    plans = [
        plan(),
        plan(driftPolicy="Report"),
        plan(gateway={"port": 8088, "apiKeySecretRef": {"name": "gw", "key": "apiKey"}}),
        plan(snapshots={"enabled": True}),
        plan(normalize={"systemName": True}),
        plan(excludePatterns=["*.bak"]),
        composed(mapped(PROJECTS), TREE, pod(gateway_name="other")),
        composed(mapped(PROJECTS), TREE, pod(labels={"zone": "east"})),
        composed(mapped(PROJECTS), tree("projects/b")),
        composed(mapped({**PROJECTS, "template": True}), TREE),
    ]
    assert len({one.id for one in plans}) == len(plans)
    assert plan().id == plan().id
    assert len(plan().id) == 64


def test_the_order_of_labels_and_variables_changes_no_id() -> None:
    one = composed(mapped(PROJECTS), TREE, pod(labels={"a": "1", "b": "2"}))
    two = composed(mapped(PROJECTS), TREE, pod(labels={"b": "2", "a": "1"}))
    assert one == two


def test_v0_4_0_another_profile_without_another_commit_is_another_plan() -> None:
    """The original skipped a sync if the commit was the same."""
    given = mapped(PROJECTS, mapping("more", "more"))
    assert composed(given, TREE).id != plan().id


def test_a_problem_holds_the_files_and_says_why() -> None:
    held = composed(mapped(mapping("other", "x", required=True), PROJECTS), TREE)
    assert (held.action, held.files, held.commit) == ("Hold", (), "")
    assert "the commit has no file or folder 'other'" in held.message


def test_bug_6_an_invalid_profile_is_never_published() -> None:
    held = composed(mapped(mapping("projects", "../up")), TREE)
    assert (held.action, held.files) == ("Hold", ())


def test_many_problems_are_told_in_short() -> None:
    files = planned(mapped(*[mapping(f"s{number}", "x", required=True) for number in range(5)]), TREE)
    told = describe_problems(files)
    assert told.count("which is required") == 3
    assert told.endswith("; and 2 more")


def omitted(given: IgnitionSyncSpec, *paths: str, **annotations: str) -> str:
    facts = pod(**annotations)
    return describe_omissions(resolve_profile(given, facts), planned(given, tree(*paths), facts))


def test_a_source_that_the_commit_lacks_is_told_where_it_is_news() -> None:
    one, other = mapping("projects", "projects"), mapping("projcts", "x")
    assert omitted(mapped(one), "projects/a") == ""
    assert omitted(mapped(one, other), "projects/a") == "the commit has no 'projcts'"
    # Without profiles, three folders are looked for, and one is enough.
    assert omitted(spec(), "site/projects/a", service_path="site") == ""
    told = "'sit/projects', 'sit/config/resources/external', 'sit/config/resources/core'"
    assert omitted(spec(), "site/projects/a", service_path="sit") == f"the commit has no {told}"


def test_files_of_the_gateway_that_the_commit_has_are_told() -> None:
    told = omitted(mapped(mapping(".", ".")), "projects/a", *(f"var/{number}" for number in range(5)))
    assert told == "files of the gateway itself are left out, see unprotected: 'var/0', 'var/1', 'var/2' and more"


def test_a_message_has_a_limit() -> None:
    files = planned(mapped(mapping("s" * 500, "x", required=True), mapping("t" * 500, "x", required=True)), TREE)
    assert len(held_plan(pod(), "Hold", describe_problems(files) * 3).message) <= 1024


def test_a_paused_profile_keeps_the_files_and_is_no_error() -> None:
    given = spec(sync={"profiles": {"default": {"mappings": [PROJECTS], "paused": True}}})
    paused = composed(given, TREE)
    assert (paused.action, paused.message) == ("Pause", "the profile default is paused")


def test_an_action_from_outside_goes_first() -> None:
    given = mapped(PROJECTS)
    profile = resolve_profile(given, pod())
    held = compose_plan(
        given,
        profile,
        pod(),
        planned(given, TREE),
        ref=REF,
        commit=COMMIT,
        action="Pause",
        message="suspended",
        ca="CA",
    )
    assert (held.action, held.message, held.files, held.ca) == ("Pause", "suspended", (), "CA")


def test_what_cannot_be_applied_is_not_published() -> None:
    held = plan(apply={"type": "Command", "command": {"command": ["x"]}})
    assert held.action == "Hold"
    assert "apply.type Command is not supported: write Ignition, HTTP, Signal or None" in held.message


def test_a_signal_is_planned() -> None:
    apply = {"type": "Signal", "signal": {"process": "nginx", "signal": "SIGUSR1"}}
    given = mapped(PROJECTS, apply=apply)
    sharing = msgspec.structs.replace(pod(), shares_processes=True)
    assert composed(given, TREE, sharing).apply == PlannedApply(signal=SignalApply("nginx", "SIGUSR1"))
    held = composed(given, TREE)
    assert held.action == "Hold"
    assert "shareProcessNamespace: true, and no hostPID, in pod site-gateway-0" in held.message


def test_an_application_that_notices_changes_itself_is_not_called() -> None:
    assert plan(apply={"type": "None"}).apply == PlannedApply()
    assert plan(apply={"type": "None"}).rules.unprotected == PROTECTED


def test_a_request_is_described_without_the_values_of_its_headers() -> None:
    headers = [{"name": "Authorization", "secretRef": {"name": "reload", "key": "header"}}]
    http = {"port": 9090, "path": "/-/reload", "headers": headers, "timeout": "1500ms", "expectedCodes": [204]}
    assert plan(apply={"type": "HTTP", "http": http}).apply == PlannedApply(
        http=HttpApply(
            port=9090, path="/-/reload", headers={"Authorization": "reload/header"}, expected=(204,), timeout_seconds=2
        )
    )
    usual = plan(apply={"type": "HTTP", "http": {"port": 9090}}).apply.http
    assert usual == HttpApply(port=9090)


def test_values_that_differ_between_gateways_are_rendered_here() -> None:
    given = mapped(
        PROJECTS,
        siteNumber="7",
        normalize={"systemName": True, "fields": [{"jsonPath": ".name", "valueTemplate": "{{.GatewayName}}-x"}]},
    )
    rules = composed(given, TREE, pod(gateway_name="a", system_name_template="s{{.SiteNumber}}-{{.GatewayName}}")).rules
    assert (rules.system_name, rules.fields) == ("s7-a", (FieldValue(".name", "a-x"),))
    assert plan().rules.system_name is None


def test_a_system_name_that_cannot_be_rendered_holds_the_files() -> None:
    held = composed(mapped(PROJECTS), TREE, pod(system_name_template="{{.SiteNumber}}"))
    assert held.action == "Hold"
    assert "normalize: {{ .SiteNumber }} is no variable here" in held.message


def test_checks_are_planned() -> None:
    hook = {"url": "https://checks.example.com/files", "timeout": "3s"}
    assert plan(validation={"webhook": hook}).check == PlannedCheck(False, hook["url"], 3)
    assert plan(validation={"webhook": {"url": ""}}).check == PlannedCheck()
    dry = spec(sync={"defaults": {"dryRun": True}, "profiles": {"default": {"mappings": [PROJECTS]}}})
    assert composed(dry, TREE).check == PlannedCheck(dry_run=True)


def test_snapshots_are_kept_only_if_enabled() -> None:
    assert plan(snapshots={"enabled": True, "retentionCount": 3}).snapshots == PlannedSnapshots(3)
    assert plan(snapshots={"enabled": False}).snapshots == PlannedSnapshots(0)


def test_edits_go_back_only_if_enabled() -> None:
    guardrails = {"maxFileSize": "1Mi", "maxFilesPerPR": 7, "excludePatterns": ["*.jar"]}
    sent = plan(bidirectional={**BACK, "debounce": "2s", "conflictStrategy": "manual", "guardrails": guardrails})
    assert sent.send_back == PlannedReturn(2.0, 1024 * 1024, 7, ("*.jar",), "manual", "changes")
    assert sent.rules.watched == ("projects/**",)
    without = plan(bidirectional={**BACK, "enabled": False})
    assert (without.send_back, without.rules.watched) == (None, ())
