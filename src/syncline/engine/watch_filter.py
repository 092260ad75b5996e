"""Watch filter: the unmanaged objects that are watched, such as sources, referenced objects and occupied targets."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from syncline.api.common import LabelSelector, ObjectMeta
from syncline.core.selectors import selector_matches


class LabelQuery(Struct, frozen=True):
    """Objects with these labels, in one namespace or, where it is empty, in all; cluster-scoped objects match too."""

    namespace: str
    selector: LabelSelector

    def matches(self, meta: ObjectMeta) -> bool:
        """Whether the query selects an object."""
        here = not meta.namespace or self.namespace in ("", meta.namespace)
        return here and selector_matches(self.selector, meta.labels)


class WatchFilter:
    """By kind: names, with the number of syncs that watch them, and label queries. Other objects are dropped."""

    def __init__(self) -> None:
        self._names: dict[str, Counter[str]] = {}
        self._queries: dict[str, list[LabelQuery]] = {}

    def retain(self, kind: str, names: Iterable[str] = (), queries: Iterable[LabelQuery] = ()) -> None:
        """Match objects of these names, in any namespace, and objects that these queries select."""
        if counted := Counter(names):
            self._names.setdefault(kind, Counter()).update(counted)
        if chosen := list(queries):
            self._queries.setdefault(kind, []).extend(chosen)

    def release(self, kind: str, names: Iterable[str] = (), queries: Iterable[LabelQuery] = ()) -> None:
        """Undo one `retain`; names and queries that another sync retains still match."""
        counts = self._names.get(kind, Counter())
        for name in names:
            counts[name] -= 1
            if counts[name] <= 0:
                del counts[name]
        chosen = self._queries.get(kind, [])
        for query in queries:
            chosen.remove(query)
        if not counts:
            self._names.pop(kind, None)
        if not chosen:
            self._queries.pop(kind, None)

    def matches(self, kind: str, meta: ObjectMeta) -> bool:
        """Whether any sync watches this object."""
        if meta.name in self._names.get(kind, ()):
            return True
        return any(query.matches(meta) for query in self._queries.get(kind, ()))

    def has_kind(self, kind: str) -> bool:
        """Whether any sync watches objects of this kind."""
        return kind in self._names or kind in self._queries
