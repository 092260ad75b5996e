"""Target selection: the namespaces that match, the name of each object, and what is skipped and why."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from syncline.api.common import TargetState
from syncline.api.names import AnyName
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, SourceObject
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.namespaces import closed_namespace
from syncline.controllers.targets.visibility import Visibility
from syncline.core.conditions import shorten
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Namespace, Reach, Scope
from syncline.core.tenancy import NOT_ALLOWED
from syncline.engine.claims import ClaimedTarget
from syncline.engine.cluster import Cluster
from syncline.render.errors import RenderFailed, TransformError
from syncline.render.transform_pool import TransformPool, is_template
from syncline.render.workers.protocol import TransformSource as RenderSource
from syncline.render.workers.protocol import TransformTarget as RenderTarget

MAX_NAME = 253


class PlannedCopy(Struct, frozen=True, kw_only=True):
    """One target: the source object and the place of its copy."""

    site: TargetCluster
    source: SourceObject
    target: Target
    hidden: bool = False
    """Whether the account of the sync must not know its namespace, which is absent or closed.

    A dry run asks the API server as for any other target, so that the answer is the same; nothing is written.
    """


class TargetSelection(Struct, frozen=True, kw_only=True):
    """All targets of a sync."""

    copies: tuple[PlannedCopy, ...] = ()
    skipped: tuple[Outcome, ...] = ()
    unresolved_names: tuple[Outcome, ...] = ()
    """Targets whose name is not known. While there are any, no copy counts as unwanted."""

    @property
    def refused(self) -> bool:
        """Whether a TenantPolicy forbids a target: then nothing is removed either."""
        return any(outcome.reason == NOT_ALLOWED for outcome in self.skipped)

    def wants(self) -> tuple[ClaimedTarget, ...]:
        """Return the claimed targets, which are compared with those of other syncs."""
        # One claim stands for all targets with the same source, destination and name.
        alike = {(id(copy.site), id(copy.source), copy.target.name): copy for copy in self.copies}
        wants = {
            (copy.site.cluster.name, copy.target.kind, copy.target.name, str(copy.source)): ClaimedTarget(
                (copy.site.cluster.name, copy.target.kind, copy.target.name),
                copy.site.destination.scope_of(copy.source.target, frozenset()) if copy.source.namespaced else None,
                copy.source.target,
            )
            for copy in alike.values()
        }
        return tuple(wants.values())


async def select_targets(
    lowered: LoweredSpec,
    sites: Sequence[TargetCluster],
    sources: Sequence[SourceObject],
    renderer: TransformPool,
    visibility: Visibility | None = None,
) -> TargetSelection:
    """Find all targets. Raises `SyncError` if two sources would be copied to the same target.

    Without `visibility`, the caller may know all namespaces.
    """
    copies: list[PlannedCopy] = []
    skipped: list[Outcome] = []
    unresolved_names: list[Outcome] = []
    for site in sites:
        for source in sources:
            wanted, missed = _split_namespaces(lowered, site, source)
            hidden: list[str] = []
            if visibility is not None and site.destination.local and source.namespaced:
                spelled = site.destination.scope_of(source.target, lowered.guarded).names
                wanted, missed, hidden = await _visible(site, source, (wanted, missed), spelled, visibility)
            wanted += hidden
            # Skipped targets have the names that their copies would have.
            spaces = [*wanted, *(namespace for namespace, *_ in missed)]
            names = await _names(lowered, site, source, spaces, renderer)
            for namespace, name in zip(wanted, names, strict=False):
                if message := _name_problem(name):
                    target = site.target(namespace, source.target.name, source.target.kind)
                    unresolved_names.append(
                        Outcome(target=target, state="Failed", reason="InvalidName", message=message)
                    )
                    continue
                target = site.target(namespace, str(name), source.target.kind)
                if not site.is_source(target, source):
                    copies.append(PlannedCopy(site=site, source=source, target=target, hidden=namespace in hidden))
            skipped += _skipped_outcomes(site, source, missed, names[len(wanted) :])
    _refuse_duplicates(copies)
    return TargetSelection(copies=tuple(copies), skipped=tuple(skipped), unresolved_names=tuple(unresolved_names))


_Skipped = tuple[str, TargetState, str, str]
"""A skipped namespace, with state, reason and message."""


async def _visible(
    site: TargetCluster,
    source: SourceObject,
    connected: tuple[list[str], list[_Skipped]],
    spelled: frozenset[str],
    visibility: Visibility,
) -> tuple[list[str], list[_Skipped], list[str]]:
    """Leave out the namespaces that the account must not know, unless the sync names them exactly.

    Exactly named namespaces that would be skipped and are hidden are returned last.
    """

    def target(namespace: str) -> Target:
        return site.target(namespace, source.target.name, source.target.kind)

    wanted, missed = connected
    found = [namespace for namespace in (*wanted, *(one for one, *_ in missed)) if namespace not in spelled]
    known = spelled | await visibility.known(map(target, found))
    hidden = [one for one, *_ in missed if one in spelled and await visibility.is_hidden(target(one))]
    return (
        [namespace for namespace in wanted if namespace in known],
        [one for one in missed if one[0] in known and one[0] not in hidden],
        hidden,
    )


def _skipped_outcomes(
    site: TargetCluster, source: SourceObject, missed: Iterable[_Skipped], names: Iterable[str | TransformError]
) -> Iterator[Outcome]:
    for (namespace, state, reason, message), name in zip(missed, names, strict=True):
        named = source.target.name if _name_problem(name) else str(name)
        target = site.target(namespace, named, source.target.kind)
        if not site.is_source(target, source):
            yield Outcome(target=target, state=state, reason=reason, message=message)


def _split_namespaces(
    lowered: LoweredSpec, site: TargetCluster, source: SourceObject
) -> tuple[list[str], list[_Skipped]]:
    """Divide the namespaces of a destination into those to write to, and those that are skipped."""
    if not source.namespaced:
        refused = lowered.limits.target(source.target.kind, "")
        return ([""], []) if refused is None else ([], [("", "Failed", NOT_ALLOWED, str(refused))])
    scope = site.destination.scope_of(source.target, lowered.guarded)
    name = lowered.target_name if lowered.target_name and not is_template(lowered.target_name) else source.target.name
    wanted: list[str] = []
    missed: list[_Skipped] = []
    for namespace in _candidates(scope, site.cluster):
        named = not is_template(lowered.target_name)
        if named and site.is_source(site.target(namespace.name, name, source.target.kind), source):
            continue
        match scope.reach(namespace):
            case Reach.WANTED if (refused := lowered.limits.destination(namespace.name)) is not None:
                missed.append((namespace.name, "Failed", NOT_ALLOWED, str(refused)))
            case Reach.WANTED:
                wanted.append(namespace.name)
            case Reach.IGNORED | Reach.TERMINATING:
                missed.append(_closed(namespace))
            case _:
                pass
    for spelled in sorted(spelled for spelled in scope.names if site.cluster.namespace(spelled) is None):
        message = f"namespace {spelled!r} does not exist; it gets its copy when it is created"
        missed.append((spelled, "Pending", "NamespaceNotFound", message))
    return wanted, missed


def _closed(namespace: Namespace) -> _Skipped:
    outcome = closed_namespace(namespace, Target(namespace.name, ""))
    assert outcome is not None  # noqa: S101 - the scope does not reach it
    return namespace.name, outcome.state, outcome.reason, outcome.message


def _candidates(scope: Scope, cluster: Cluster) -> Iterator[Namespace]:
    """Yield the candidate namespaces."""
    # Without globs and selectors only the names are looked up, not all namespaces.
    open_ended = bool(scope.globs) or scope.selector is not None
    spelled = (cluster.namespace(name) for name in sorted(scope.names))
    found: Iterable[Namespace | None] = cluster.all_namespaces() if open_ended else spelled
    yield from (namespace for namespace in found if namespace is not None)


async def _names(
    lowered: LoweredSpec, site: TargetCluster, source: SourceObject, namespaces: Sequence[str], renderer: TransformPool
) -> Sequence[str | TransformError]:
    name = lowered.target_name
    if not name or not is_template(name):
        return [name or source.target.name] * len(namespaces)
    place = RenderSource(source.target.namespace, source.target.name, source.ref.kind)
    targets = [RenderTarget(namespace, source.target.name, site.destination.cluster) for namespace in namespaces]
    try:
        return await renderer.texts(name, place, targets)
    except TransformError as error:
        return [error] * len(namespaces)
    except RenderFailed as error:
        raise SyncError("RenderFailed", str(error), again=error.retry_after, retry=not error.retry_after) from error


def _name_problem(name: str | TransformError) -> str:
    """Return why the name of a target is not valid; empty if it is. The API server checks the rules of single kinds."""
    if isinstance(name, TransformError):
        return f"targetName: {name.cause}"
    if len(name) > MAX_NAME:
        return f"write a shorter targetName: it gives a name of {len(name)} characters, and {MAX_NAME} are allowed"
    try:
        msgspec.convert(name, AnyName)
    except msgspec.ValidationError:
        return f'write a targetName of letters, digits, "-", "_", ".", ":" and "@": it gives {shorten(name, 80)!r}'
    return ""


def _refuse_duplicates(copies: Iterable[PlannedCopy]) -> None:
    taken: dict[tuple[str, Target], PlannedCopy] = {}
    for copy in copies:
        # By the UID of the cluster: a sync may have two names for one cluster.
        place = (copy.site.cluster.uid, copy.target.local())
        other = taken.setdefault(place, copy)
        if other is not copy:
            # The message names no namespace: the account of the sync may not be able to read it.
            what = f"{copy.target.kind} {copy.target.name} in one place"
            first, second = other.target.cluster or "here", copy.target.cluster or "here"
            why = (
                f"{other.source} and {copy.source} would both become {what}; give them names of their own"
                if other.source is not copy.source
                else f"clusters {first} and {second} are one cluster, and both would have {what}; take one out"
            )
            raise SyncError("SameTarget", why, stalled=True)
