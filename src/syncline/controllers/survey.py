"""Where the copies of a sync belong, as its clusters are now: every target, and those passed over with the reason."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from syncline.api.common import TargetState
from syncline.api.names import AnyName
from syncline.controllers.reporting import Problem
from syncline.controllers.visibility import Visibility
from syncline.controllers.work import Place, Source, Work
from syncline.core.conditions import shorten
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import Owner
from syncline.core.scope import Namespace, Reach, Scope
from syncline.core.tenancy import NOT_ALLOWED
from syncline.engine.claims import Want
from syncline.engine.cluster import Cluster
from syncline.kube.client import Client
from syncline.render.errors import RenderFailed, TransformError
from syncline.render.transform_pool import TransformPool, is_template
from syncline.render.workers.protocol import Source as RenderSource
from syncline.render.workers.protocol import Target as RenderTarget

LONGEST_NAME = 253


class Site(Struct, frozen=True, kw_only=True):
    """A cluster as one sync reaches it."""

    place: Place
    cluster: Cluster
    client: Client
    """With the identity that the sync writes with."""
    owner: Owner
    home: bool = True
    """Whether it is the cluster of the sync itself, also where the sync takes it for another one."""

    def is_source(self, target: Target, source: Source) -> bool:
        """Whether a place here is that of the source itself."""
        return self.home and target.namespace == source.target.namespace and target.local() == source.target

    def target(self, namespace: str, name: str, kind: str) -> Target:
        """Return a place in this cluster, by the name that the sync has for it."""
        return Target(namespace, name, kind, self.place.cluster)


class Spot(Struct, frozen=True, kw_only=True):
    """One target: what is to be copied where."""

    site: Site
    source: Source
    target: Target
    hidden: bool = False
    """Whether its namespace, which is absent or closed, is none that the sync's account may know of.

    The API server is asked for it as for any other, so that its answer is the same; nothing is written there.
    """


class Survey(Struct, frozen=True, kw_only=True):
    """All targets of a sync."""

    spots: tuple[Spot, ...] = ()
    passed_over: tuple[Outcome, ...] = ()
    unnamed: tuple[Outcome, ...] = ()
    """Targets whose name cannot be said: as long as there are any, no copy counts as unwanted."""

    @property
    def refused(self) -> bool:
        """Whether a TenantPolicy is against a target: then nothing is removed either."""
        return any(outcome.reason == NOT_ALLOWED for outcome in self.passed_over)

    def wants(self) -> tuple[Want, ...]:
        """Return what is wanted where, to be told from what other syncs want."""
        # Of all targets of one source and place that have one name, one speaks for the others.
        alike = {(id(spot.site), id(spot.source), spot.target.name): spot for spot in self.spots}
        wants = {
            (spot.site.cluster.name, spot.target.kind, spot.target.name, str(spot.source)): Want(
                (spot.site.cluster.name, spot.target.kind, spot.target.name),
                spot.site.place.scope_of(spot.source.target, frozenset()) if spot.source.namespaced else None,
                spot.source.target,
            )
            for spot in alike.values()
        }
        return tuple(wants.values())


async def survey(
    work: Work,
    sites: Sequence[Site],
    sources: Sequence[Source],
    renderer: TransformPool,
    visibility: Visibility | None = None,
) -> Survey:
    """Find all targets. Raises `Problem` where two sources would be copied to one place.

    Without `visibility`, whoever asks may know of all namespaces.
    """
    spots: list[Spot] = []
    passed_over: list[Outcome] = []
    unnamed: list[Outcome] = []
    for site in sites:
        for source in sources:
            wanted, missed = _reached(work, site, source)
            hidden: list[str] = []
            if visibility is not None and site.place.local and source.namespaced:
                spelled = site.place.scope_of(source.target, work.guarded).names
                wanted, missed, hidden = await _visible(site, source, (wanted, missed), spelled, visibility)
            wanted += hidden
            # Those passed over are told by the names that their copies would have.
            spaces = [*wanted, *(namespace for namespace, *_ in missed)]
            names = await _names(work, site, source, spaces, renderer)
            for namespace, name in zip(wanted, names, strict=False):
                if message := _name_problem(name):
                    target = site.target(namespace, source.target.name, source.target.kind)
                    unnamed.append(Outcome(target=target, state="Failed", reason="InvalidName", message=message))
                    continue
                target = site.target(namespace, str(name), source.target.kind)
                if not site.is_source(target, source):
                    spots.append(Spot(site=site, source=source, target=target, hidden=namespace in hidden))
            passed_over += _passed_over(site, source, missed, names[len(wanted) :])
    _refuse_clashes(spots)
    return Survey(spots=tuple(spots), passed_over=tuple(passed_over), unnamed=tuple(unnamed))


_Missed = tuple[str, TargetState, str, str]
"""A namespace that is passed over, with state, reason and message."""


async def _visible(
    site: Site,
    source: Source,
    reached: tuple[list[str], list[_Missed]],
    spelled: frozenset[str],
    visibility: Visibility,
) -> tuple[list[str], list[_Missed], list[str]]:
    """Leave out the namespaces that the account may not know of, unless the sync spells them out.

    Of those that it spells out, the ones that would be passed over and are hidden are returned last.
    """

    def target(namespace: str) -> Target:
        return site.target(namespace, source.target.name, source.target.kind)

    wanted, missed = reached
    found = [namespace for namespace in (*wanted, *(one for one, *_ in missed)) if namespace not in spelled]
    known = spelled | await visibility.known(map(target, found))
    hidden = [one for one, *_ in missed if one in spelled and await visibility.is_hidden(target(one))]
    return (
        [namespace for namespace in wanted if namespace in known],
        [one for one in missed if one[0] in known and one[0] not in hidden],
        hidden,
    )


def _passed_over(
    site: Site, source: Source, missed: Iterable[_Missed], names: Iterable[str | TransformError]
) -> Iterator[Outcome]:
    for (namespace, state, reason, message), name in zip(missed, names, strict=True):
        named = source.target.name if _name_problem(name) else str(name)
        target = site.target(namespace, named, source.target.kind)
        if not site.is_source(target, source):
            yield Outcome(target=target, state=state, reason=reason, message=message)


def _reached(work: Work, site: Site, source: Source) -> tuple[list[str], list[_Missed]]:
    """Sort the namespaces of a place into those to write to, and those passed over."""
    if not source.namespaced:
        refused = work.limits.target(source.target.kind, "")
        return ([""], []) if refused is None else ([], [("", "Failed", NOT_ALLOWED, str(refused))])
    scope = site.place.scope_of(source.target, work.guarded)
    name = work.target_name if work.target_name and not is_template(work.target_name) else source.target.name
    wanted: list[str] = []
    missed: list[_Missed] = []
    for namespace in _named(scope, site.cluster):
        named = not is_template(work.target_name)
        if named and site.is_source(site.target(namespace.name, name, source.target.kind), source):
            continue
        match scope.reach(namespace):
            case Reach.WANTED if (refused := work.limits.destination(namespace.name)) is not None:
                missed.append((namespace.name, "Failed", NOT_ALLOWED, str(refused)))
            case Reach.WANTED:
                wanted.append(namespace.name)
            case Reach.IGNORED:
                message = f"namespace {namespace.name!r} is labelled syncline.dev/ignore: true"
                missed.append((namespace.name, "Skipped", "NamespaceIgnored", message))
            case Reach.TERMINATING:
                missed.append((namespace.name, "Skipped", "NamespaceTerminating", "the namespace is being deleted"))
            case _:
                pass
    for spelled in sorted(spelled for spelled in scope.names if site.cluster.namespace(spelled) is None):
        message = f"namespace {spelled!r} does not exist; it gets its copy when it is created"
        missed.append((spelled, "Pending", "NamespaceNotFound", message))
    return wanted, missed


def _named(scope: Scope, cluster: Cluster) -> Iterator[Namespace]:
    """Yield the namespaces that may be meant."""
    # Without globs and selectors the cost is that of the names, however many namespaces there are.
    open_ended = bool(scope.globs) or scope.selector is not None
    spelled = (cluster.namespace(name) for name in sorted(scope.names))
    found: Iterable[Namespace | None] = cluster.all_namespaces() if open_ended else spelled
    yield from (namespace for namespace in found if namespace is not None)


async def _names(
    work: Work, site: Site, source: Source, namespaces: Sequence[str], renderer: TransformPool
) -> Sequence[str | TransformError]:
    name = work.target_name
    if not name or not is_template(name):
        return [name or source.target.name] * len(namespaces)
    place = RenderSource(source.target.namespace, source.target.name, source.ref.kind)
    targets = [RenderTarget(namespace, source.target.name, site.place.cluster) for namespace in namespaces]
    try:
        return await renderer.texts(name, place, targets)
    except TransformError as error:
        return [error] * len(namespaces)
    except RenderFailed as error:
        raise Problem("RenderFailed", str(error), again=error.retry_after, retry=not error.retry_after) from error


def _name_problem(name: str | TransformError) -> str:
    """Say why a target cannot be named so; empty where it can. The rules of single kinds are the API server's."""
    if isinstance(name, TransformError):
        return f"targetName: {name.cause}"
    if len(name) > LONGEST_NAME:
        return f"write a shorter targetName: it gives a name of {len(name)} characters, and {LONGEST_NAME} are allowed"
    try:
        msgspec.convert(name, AnyName)
    except msgspec.ValidationError:
        return f'write a targetName of letters, digits, "-", "_", ".", ":" and "@": it gives {shorten(name, 80)!r}'
    return ""


def _refuse_clashes(spots: Iterable[Spot]) -> None:
    taken: dict[tuple[str, Target], Spot] = {}
    for spot in spots:
        # By the cluster itself: a sync may have two names for one.
        place = (spot.site.cluster.uid, spot.target.local())
        other = taken.setdefault(place, spot)
        if other is not spot:
            # No namespace is named: the sync's account may not be able to see it.
            what = f"{spot.target.kind} {spot.target.name} in one place"
            first, second = other.target.cluster or "here", spot.target.cluster or "here"
            why = (
                f"{other.source} and {spot.source} would both become {what}; give them names of their own"
                if other.source is not spot.source
                else f"clusters {first} and {second} are one cluster, and both would have {what}; take one out"
            )
            raise Problem("SameTarget", why, stalled=True)
