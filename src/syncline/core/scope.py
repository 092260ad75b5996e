"""The scope of a sync: matches its namespaces by name, glob and selector, and returns the state of each."""

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct

from syncline.api.common import GROUP, LabelSelector
from syncline.core.digest import short_digest
from syncline.core.selectors import glob_matches, is_glob, selector_matches, selector_words

IGNORE_LABEL = f"{GROUP}/ignore"


class Namespace(Struct, frozen=True, gc=False):
    """A cached namespace."""

    name: str
    uid: str
    labels: Mapping[str, str] = {}
    terminating: bool = False

    @property
    def ignored(self) -> bool:
        """Whether its label keeps all syncs out."""
        return self.labels.get(IGNORE_LABEL) == "true"


class Reach(Enum):
    """The state of a namespace for a sync."""

    OUTSIDE = "outside"
    WANTED = "wanted"
    IGNORED = "ignored"
    TERMINATING = "terminating"
    MISSING = "missing"


class Scope(Struct, frozen=True, kw_only=True):
    """The union of exact names, globs and a label selector."""

    names: frozenset[str] = frozenset()
    globs: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    guarded: frozenset[str] = frozenset()
    """Namespaces, as names or globs, that a sync must name exactly, in addition to `kube-*`."""

    def reach(self, namespace: Namespace) -> Reach:
        """Return whether the sync writes to this namespace, and if not, why."""
        if not self.matches(namespace):
            return Reach.OUTSIDE
        if namespace.ignored:
            return Reach.IGNORED
        return Reach.TERMINATING if namespace.terminating else Reach.WANTED

    def matches(self, namespace: Namespace) -> bool:
        """Whether the spec names it."""
        if namespace.name in self.names:
            return True
        if namespace.name.startswith("kube-") or any(glob_matches(guard, namespace.name) for guard in self.guarded):
            return False
        if any(glob_matches(glob, namespace.name) for glob in self.globs):
            return True
        return self.selector is not None and selector_matches(self.selector, namespace.labels)

    def unmatched(self, namespaces: Iterable[Namespace]) -> list[str]:
        """Describe the globs and the selector that match none of these namespaces."""
        found = list(namespaces)
        words = [
            f"no namespace to write to matches {glob}"
            for glob in self.globs
            if not any(glob_matches(glob, namespace.name) for namespace in found)
        ]
        selector = self.selector
        if selector is not None and not any(selector_matches(selector, namespace.labels) for namespace in found):
            words.append(f"no namespace to write to has the labels {selector_words(selector)}")
        return words

    def digest(self) -> str:
        """Return a short digest of the scope, to distinguish an edit of the spec from a change of the cluster."""
        selector = self.selector or LabelSelector()
        return short_digest(
            *sorted(self.names),
            "globs",
            *sorted(self.globs),
            "selector",
            *(f"{key}={value}" for key, value in sorted(selector.match_labels.items())),
            *sorted(f"{r.key} {r.operator} {','.join(sorted(r.values))}" for r in selector.match_expressions),
        )


def selected_scope(selector: LabelSelector | None, guarded: frozenset[str]) -> Scope:
    """Return the scope of a selector of namespaces; without one, all except `kube-*` and the guarded ones."""
    if selector is None:
        return Scope(globs=("*",), guarded=guarded)
    return Scope(selector=selector, guarded=guarded)


def scope_of(
    names: tuple[str, ...], patterns: tuple[str, ...], selector: LabelSelector | None, guarded: frozenset[str]
) -> Scope:
    """Return the scope of a spec."""
    return Scope(
        names=frozenset(names) | frozenset(pattern for pattern in patterns if not is_glob(pattern)),
        globs=tuple(pattern for pattern in patterns if is_glob(pattern)),
        selector=selector,
        guarded=guarded,
    )
