"""A prepared revision of one environment, and the result of applying it."""

from collections.abc import Mapping, Sequence
from typing import Self

from msgspec import Struct, structs

from syncline.api.configsync import SourceRevision
from syncline.controllers.errors import QuotaError, SyncError
from syncline.controllers.sources.tree import SourceTree
from syncline.core.desired import BuildArtifact
from syncline.core.environments import EnvironmentSpec, EnvironmentState
from syncline.core.objects import Desired
from syncline.core.revisions import Decision
from syncline.core.tenancy import NOT_ALLOWED, TenantLimits
from syncline.core.validity import Validity

_NAMED = 3
_APPLIED = frozenset({"Synced", "Skipped"})


class PreparedRevision(Struct, frozen=True, kw_only=True):
    """The revision that one environment applies in this reconcile."""

    environment: EnvironmentSpec
    recorded: EnvironmentState
    revision: str | None = None
    """The decision about the revision, for the status."""
    attempted: str = ""
    """The revision that could not be read or built, if it is known."""
    revisions: tuple[SourceRevision, ...] = ()
    artifact: BuildArtifact | None = None
    source_tree: SourceTree | None = None
    """The files that it was built from, during a reconcile."""
    certain: bool = False
    """Whether it is complete: only then may objects be removed."""
    problem: SyncError | None = None
    decision: Decision | None = None
    skipped: Mapping[str, Validity] = {}
    """The clusters that it is not written to, with the result of validation there."""
    unpacked: tuple[Desired, ...] | None = None
    """The built objects, unpacked during a reconcile."""

    def desired(self) -> Sequence[Desired]:
        """Return the desired object of each target."""
        if self.unpacked is not None:
            return self.unpacked
        return self.artifact.desired() if self.artifact is not None else ()

    def unpack(self) -> Self:
        """Unpack the built objects, once for the whole reconcile."""
        return structs.replace(self, unpacked=tuple(self.desired()))


def within_limits(prepared: PreparedRevision, limits: TenantLimits) -> PreparedRevision:
    """Return a revision that TenantPolicies allow. If one object is not allowed, nothing of the revision is applied.

    An earlier revision is not applied either if its sources or keys are no longer allowed.
    """
    if (
        prepared.problem is not None
        and prepared.problem.reason == NOT_ALLOWED
        and not isinstance(prepared.problem, QuotaError)
    ):
        return _withheld(prepared, prepared.problem)
    targets = dict.fromkeys((one.target.kind, one.target.namespace, one.target.name) for one in prepared.desired())
    for kind, namespace, name in targets if limits.policies else ():
        if (violation := limits.target(kind, namespace)) is not None:
            message = f"{violation}; it is about {kind} {f'{namespace}/' if namespace else ''}{name}"
            return _withheld(prepared, SyncError(NOT_ALLOWED, message, stalled=True))
    return prepared


def _withheld(prepared: PreparedRevision, problem: SyncError) -> PreparedRevision:
    """Return a prepared revision that applies nothing and removes nothing."""
    return PreparedRevision(
        environment=prepared.environment,
        recorded=prepared.recorded,
        revision=prepared.recorded.revision,
        revisions=prepared.recorded.revisions,
        attempted=prepared.attempted or prepared.revision or "",
        decision=prepared.decision,
        problem=problem,
        unpacked=(),
    )
