"""Selectors that match nothing: they are reported, because otherwise the user sees neither an error nor an object."""

from collections.abc import Iterable, Sequence

from syncline.api.common import LabelSelector
from syncline.controllers.lowered import LoweredSpec, SourceObject, SourceQuery
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Target
from syncline.core.scope import Namespace
from syncline.core.selectors import selector_matches, selector_words
from syncline.engine.cluster import Cluster


def unmatched_sources(lowered: LoweredSpec, sources: Sequence[SourceObject]) -> list[str]:
    """Describe the selectors that match none of the sources that were read."""
    return [
        f"no {ref.kind}{f' of namespace {ref.namespace}' if ref.namespace else ''} that may be copied has the labels "
        f"{selector_words(ref.selector)}"
        for ref in lowered.reads
        if ref.selector is not None and not any(_is_selected(source, ref, ref.selector) for source in sources)
    ]


def unmatched_namespaces(lowered: LoweredSpec, sites: Sequence[TargetCluster], targets: Iterable[Target]) -> list[str]:
    """Describe the globs and selectors of namespaces that match none of the namespaces of `targets`.

    These are the namespaces that the account may know. So a match of a hidden namespace makes no difference here.
    """
    found: dict[str, set[str]] = {}
    for target in targets:
        found.setdefault(target.cluster, set()).add(target.namespace)
    words: list[str] = []
    for site in sites:
        scope = site.destination.scope
        if scope is None:
            continue
        names = sorted(found.get(site.destination.cluster, ()))
        said = scope.unmatched(_known(site.cluster, names))
        where = f" in cluster {site.destination.cluster}" if site.destination.cluster else ""
        hidden = f", or none that {lowered.user} may see" if lowered.user is not None and site.destination.local else ""
        words += [f"{one}{where}{hidden}" for one in said]
    return list(dict.fromkeys(words))


def _is_selected(source: SourceObject, ref: SourceQuery, selector: LabelSelector) -> bool:
    alike = (source.ref.kind_name, source.ref.namespace) == (ref.kind_name, ref.namespace)
    return alike and selector_matches(selector, source.meta.labels)


def _known(cluster: Cluster, names: Iterable[str]) -> list[Namespace]:
    return [namespace for name in names if (namespace := cluster.namespace(name)) is not None]
