"""Composes the plans of gateways from the spec, the decision in the status, the pod, and the tree of the commit.

A tenant can make this work long, with many files and mappings. So it runs in threads, a few at a time and a share for
each namespace, and the files of a commit are planned once for all gateways with the same mappings.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from threading import Lock

import msgspec
from msgspec import Struct

from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.gateway_composition import compose_plan, describe_omissions, held_plan
from syncline.core.gateway_files import FileEntry, PlannedFiles, plan_files, values_of
from syncline.core.gateway_plan import GatewayPlan, PlanAction
from syncline.core.gateway_profiles import GatewayFacts, ProfileError, ResolvedProfile, resolve_profile
from syncline.core.gateway_serving import Serving
from syncline.core.gateway_templates import TemplateError, render
from syncline.fairness import FairSemaphore
from syncline.git import CommitTree
from syncline.programs import in_thread

SLOTS = 2
MAX_CACHED_BYTES = 64 * 1024 * 1024
"""The approximate maximum size of cached planned files, of all commits."""
_FILE_BYTES = 400
MAX_KNOWN_IDS = 10_000


class PlanInputs(Struct, frozen=True, kw_only=True):
    """All inputs of a plan. The commit stands for the content of the repository."""

    sync_uid: str
    generation: int
    pod_uid: str
    facts: GatewayFacts
    oversized: bool = False
    serving: Serving
    ca: str = ""
    confirmed_deletion: str = ""

    @property
    def digest(self) -> bytes:
        """Return a digest of these inputs."""
        return sha256(msgspec.json.encode(self, order="deterministic")).digest()


class PlanSummary(Struct, frozen=True, kw_only=True):
    """The cached summary of a composed plan."""

    id: str
    action: PlanAction
    message: str = ""
    omitted: str = ""
    """Which sources the commit lacks, and which of its files are left out, although the plan has files."""
    profile: str = ""
    dry_run: bool = False
    reason: str = ""
    """The reason for a plan without files, as one word; empty if it has files."""
    has_branch: bool = True
    """Whether the plan has a branch for edits, if it wants one."""


class ComposedPlan(Struct, frozen=True):
    """A plan, and its summary."""

    plan: GatewayPlan
    summary: PlanSummary


class PlanComposer:
    """Composes plans, and caches their summaries."""

    def __init__(self) -> None:
        self._slots = FairSemaphore(SLOTS, share=1)
        self._known: OrderedDict[bytes, PlanSummary] = OrderedDict()
        self._files: OrderedDict[bytes, PlannedFiles] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def known(self, inputs: PlanInputs) -> PlanSummary | None:
        """Return the cached summary of the plan with these inputs."""
        return self._known.get(inputs.digest)

    async def compose(self, inputs: PlanInputs, spec: IgnitionSyncSpec | None, tree: CommitTree | None) -> ComposedPlan:
        """Compose a plan. Without a tree, the plan has no files."""
        async with self._slots.slot(inputs.facts.namespace):
            composed = await in_thread(self._compose, inputs, spec, tree)
        self._known[inputs.digest] = composed.summary
        while len(self._known) > MAX_KNOWN_IDS:
            self._known.popitem(last=False)
        return composed

    def _compose(self, inputs: PlanInputs, spec: IgnitionSyncSpec | None, tree: CommitTree | None) -> ComposedPlan:
        facts, served = inputs.facts, inputs.serving
        if inputs.oversized:
            message = f"pod {facts.pod} has too many labels and annotations: remove some"
            return _composed(held_plan(facts, "Hold", message, ca=inputs.ca), reason="InvalidAnnotation")
        try:
            profile = resolve_profile(spec, facts) if spec is not None else ResolvedProfile()
        except ProfileError as error:
            held = held_plan(facts, "Hold", f"{error.reason}: {error.message}", ca=inputs.ca)
            return _composed(held, reason=error.reason)
        if served.action != "Publish" or spec is None or tree is None:
            held = held_plan(facts, served.action, served.message, ca=inputs.ca)
            reason = "Suspended" if served.action == "Pause" else "Held"
            return _composed(held, profile.name, reason=reason)
        files = self._plan_files(profile, facts, served, tree)
        plan = compose_plan(
            spec,
            profile,
            facts,
            files,
            ref=served.ref,
            commit=served.commit,
            ca=inputs.ca,
            confirmed_deletion=inputs.confirmed_deletion,
        )
        reason = "" if plan.action == "Publish" else "Paused" if plan.action == "Pause" else _reason(files)
        omitted = "" if reason else describe_omissions(profile, files)
        return _composed(plan, profile.name, dry_run=profile.dry_run, reason=reason, omitted=omitted)

    def _plan_files(
        self, profile: ResolvedProfile, facts: GatewayFacts, served: Serving, tree: CommitTree
    ) -> PlannedFiles:
        """Plan the files of a gateway; those of the last gateway with the same mappings are the same."""

        def plan() -> PlannedFiles:
            entries = [FileEntry(one.path, one.id, one.size, one.mode.value) for one in tree.entries]
            return plan_files(profile, facts, served.ref, served.commit, entries)

        try:
            values = values_of(profile, facts, served.ref, served.commit)
            paths = [(render(one.source, values), render(one.destination, values)) for one in profile.mappings]
        except TemplateError:
            return plan()
        rest = [(one.type, one.required, one.template, one.patches) for one in profile.mappings]
        key = sha256(
            msgspec.json.encode([tree.root, paths, rest, profile.exclude, profile.unprotected, profile.is_ignition])
        ).digest()
        return self._cached(key, plan)

    def _cached(self, key: bytes, plan: Callable[[], PlannedFiles]) -> PlannedFiles:
        found = self._files.get(key)
        if found is None:
            found = plan()
            with self._lock:
                if key not in self._files:  # another thread may have been faster
                    self._files[key] = found
                    self._held += _size(found)
                while self._held > MAX_CACHED_BYTES:
                    self._held -= _size(self._files.popitem(last=False)[1])
        return found


def _size(planned: PlannedFiles) -> int:
    """Estimate the bytes that planned files take."""
    return _FILE_BYTES + sum(_FILE_BYTES + len(file.path) for file in planned.files)


def _composed(
    plan: GatewayPlan, profile: str = "", *, dry_run: bool = False, reason: str = "", omitted: str = ""
) -> ComposedPlan:
    summary = PlanSummary(
        id=plan.id,
        action=plan.action,
        message=plan.message,
        omitted=omitted,
        profile=profile,
        dry_run=dry_run,
        reason=reason,
        has_branch=plan.send_back is None or bool(plan.send_back.branch),
    )
    return ComposedPlan(plan, summary)


def _reason(files: PlannedFiles) -> str:
    return files.problems[0].reason if files.problems else "Held"
