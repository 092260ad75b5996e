"""Composes the plan of a gateway from the spec of its sync, its profile and its files."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import structs

from syncline.api.ignition_git import SecretKeySelector
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.durations import seconds
from syncline.core.gateway_edits import EditsRefused, target_branch
from syncline.core.gateway_files import PlannedFiles, unprotected_paths, values_of
from syncline.core.gateway_plan import (
    FieldValue,
    FileRules,
    GatewayPlan,
    HttpApply,
    IgnitionApply,
    PlanAction,
    PlannedApply,
    PlannedCheck,
    PlannedReturn,
    PlannedSnapshots,
    SignalApply,
)
from syncline.core.gateway_profiles import GatewayFacts, ResolvedProfile
from syncline.core.gateway_templates import TemplateError, render
from syncline.core.quantities import parse_quantity

_SHOWN_PROBLEMS = 3
_SHOWN_PATHS = 3
_LONGEST_SHOWN = 80
_CODES = (200, 201, 202, 204)


def compose_plan(
    spec: IgnitionSyncSpec,
    profile: ResolvedProfile,
    facts: GatewayFacts,
    files: PlannedFiles,
    *,
    ref: str,
    commit: str,
    action: PlanAction = "Publish",
    message: str = "",
    ca: str = "",
    confirmed_deletion: str = "",
) -> GatewayPlan:
    """Return the plan of a gateway. Equal inputs give equal plans with equal ids. Pure.

    If the files or a template of the spec have a problem, the action of the plan is Hold, and its message is the cause.
    """
    if action == "Publish":
        if profile.paused:
            action, message = "Pause", f"the profile {profile.name or 'of sync.defaults'} is paused"
        elif files.problems:
            action, message = "Hold", describe_problems(files)
        elif spec.apply.type == "Command":
            action, message = "Hold", "apply.type Command is not supported: write Ignition, HTTP, Signal or None"
        elif spec.apply.type == "Signal" and not facts.shares_processes:
            action, message = "Hold", _needs_processes(facts)
    if action != "Publish":
        return held_plan(facts, action, message, ca=ca)
    try:
        rules = _rules(spec, profile, facts, ref, commit)
    except TemplateError as error:
        return held_plan(facts, "Hold", f"normalize: {error}", ca=ca)
    return _with_id(
        GatewayPlan(
            id="",
            sync=facts.sync,
            gateway=facts.name,
            action=action,
            message=message,
            ref=ref,
            commit=commit,
            files=files.files,
            mappings=files.mappings,
            rules=rules,
            apply=_apply(spec, profile),
            check=_check(spec, profile),
            drift=spec.drift_policy,
            snapshots=_snapshots(spec),
            send_back=_send_back(spec, rules, ref),
            ca=ca,
            confirmed_deletion=confirmed_deletion,
        )
    )


def _needs_processes(facts: GatewayFacts) -> str:
    # With hostPID, the author of a sync could reach processes of the node.
    return (
        f"apply.type Signal needs shareProcessNamespace: true, and no hostPID, in pod {facts.pod}: write it in the"
        " template of the pod"
    )


def held_plan(facts: GatewayFacts, action: PlanAction, message: str, *, ca: str = "") -> GatewayPlan:
    """Return the plan of a gateway that keeps its files, such as after a `ProfileError`. Pure."""
    return _with_id(
        GatewayPlan(id="", sync=facts.sync, gateway=facts.name, action=action, message=message[:1024], ca=ca)
    )


def describe_problems(files: PlannedFiles) -> str:
    """Return the first problems of files, for people. Pure."""
    shown = "; ".join(problem.message for problem in files.problems[:_SHOWN_PROBLEMS])
    more = len(files.problems) - _SHOWN_PROBLEMS
    return f"{shown}; and {more} more" if more > 0 else shown


def describe_omissions(profile: ResolvedProfile, files: PlannedFiles) -> str:
    """Return which sources the commit lacks, and which of its files belong to the gateway; empty if none do. Pure.

    Without profiles, sources are looked for in many places, and it is no news that some of them are missing.
    """
    told = []
    if files.missing and (profile.name or len(files.missing) == len(profile.mappings)):
        told.append(f"the commit has no {_shown(files.missing)}")
    if files.left_out:
        told.append(f"files of the gateway itself are left out, see unprotected: {_shown(files.left_out)}")
    return "; ".join(told)


def _shown(paths: Sequence[str]) -> str:
    named = ", ".join(repr(path[:_LONGEST_SHOWN]) for path in paths[:_SHOWN_PATHS])
    return f"{named} and more" if len(paths) > _SHOWN_PATHS else named


def header_file(ref: SecretKeySelector) -> str:
    """Return the file of a header's value, in the folder of Secrets of the agent: `SECRET/KEY`. Pure."""
    return f"{ref.name}/{ref.key}"


def _rules(spec: IgnitionSyncSpec, profile: ResolvedProfile, facts: GatewayFacts, ref: str, commit: str) -> FileRules:
    values = values_of(profile, facts, ref, commit)
    back = spec.bidirectional
    return FileRules(
        system_name=None if profile.system_name is None else render(profile.system_name, values),
        fields=tuple(FieldValue(one.json_path, render(one.value_template, values)) for one in spec.normalize.fields),
        values=values,
        exclude=profile.exclude,
        unprotected=unprotected_paths(profile),
        watched=tuple(back.watch_paths) if back is not None and back.enabled else (),
    )


def _apply(spec: IgnitionSyncSpec, profile: ResolvedProfile) -> PlannedApply:
    if spec.apply.type == "Ignition":
        gateway = spec.gateway
        return PlannedApply(ignition=IgnitionApply(gateway.port, gateway.tls, profile.designer_sessions))
    request, signal = spec.apply.http, spec.apply.signal
    if signal is not None:
        return PlannedApply(signal=SignalApply(signal.process, signal.signal))
    if request is None:
        return PlannedApply()
    return PlannedApply(
        http=HttpApply(
            port=request.port,
            path=request.path,
            method=request.method,
            tls=request.tls,
            headers={header.name: header_file(header.secret_ref) for header in request.headers},
            expected=tuple(request.expected_codes) or _CODES,
            timeout_seconds=max(1, round(seconds(request.timeout))),
        )
    )


def _check(spec: IgnitionSyncSpec, profile: ResolvedProfile) -> PlannedCheck:
    hook = spec.validation.webhook
    if hook is None or not hook.url:
        return PlannedCheck(dry_run=profile.dry_run)
    return PlannedCheck(profile.dry_run, hook.url, max(1, round(seconds(hook.timeout))))


def _snapshots(spec: IgnitionSyncSpec) -> PlannedSnapshots:
    wanted = spec.snapshots
    return PlannedSnapshots(wanted.retention_count if wanted is not None and wanted.enabled else 0)


def _send_back(spec: IgnitionSyncSpec, rules: FileRules, ref: str) -> PlannedReturn | None:
    back = spec.bidirectional
    if back is None or not back.enabled:
        return None
    guardrails = back.guardrails
    size = parse_quantity(guardrails.max_file_size)
    return PlannedReturn(
        debounce_seconds=seconds(back.debounce),
        max_file_bytes=int(size) if size is not None else PlannedReturn().max_file_bytes,
        max_files=guardrails.max_files_per_pr,
        exclude=tuple(guardrails.exclude_patterns),
        conflict=back.conflict_strategy,
        branch=_branch(spec, rules, ref),
    )


def _branch(spec: IgnitionSyncSpec, rules: FileRules, ref: str) -> str:
    """Return the branch for edits; empty if there is no valid one. The condition BidirectionalReady reports that."""
    back = spec.bidirectional
    try:
        return target_branch(back.target_branch or "", rules.values, (spec.git.ref, ref)) if back is not None else ""
    except EditsRefused:
        return ""


def _with_id(plan: GatewayPlan) -> GatewayPlan:
    encoded = msgspec.json.encode(structs.replace(plan, id=""), order="deterministic")
    return structs.replace(plan, id=sha256(encoded).hexdigest())
