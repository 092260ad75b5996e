"""Which objects that are not ours are worth noticing: sources, what they refer to, and what may be in the way."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from syncline.api.common import LabelSelector, ObjectMeta
from syncline.core.selectors import selector_matches


class LabelQuery(Struct, frozen=True):
    """Objects of one namespace (or of all, where it is empty) with these labels; or of a kind that is in none."""

    namespace: str
    selector: LabelSelector

    def matches(self, meta: ObjectMeta) -> bool:
        """Whether an object is selected."""
        here = not meta.namespace or self.namespace in ("", meta.namespace)
        return here and selector_matches(self.selector, meta.labels)


class WatchFilter:
    """By kind: names, counted over the syncs that are interested in them, and selections. All else is dropped."""

    def __init__(self) -> None:
        self._names: dict[str, Counter[str]] = {}
        self._queries: dict[str, list[LabelQuery]] = {}

    def retain(self, kind: str, names: Iterable[str] = (), queries: Iterable[LabelQuery] = ()) -> None:
        """Take an interest in objects of these names, in any namespace, and in selected ones."""
        if counted := Counter(names):
            self._names.setdefault(kind, Counter()).update(counted)
        if chosen := list(queries):
            self._queries.setdefault(kind, []).extend(chosen)

    def release(self, kind: str, names: Iterable[str] = (), queries: Iterable[LabelQuery] = ()) -> None:
        """Let go of an interest; other syncs may still have it."""
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
        """Whether any sync is interested in this object."""
        if meta.name in self._names.get(kind, ()):
            return True
        return any(query.matches(meta) for query in self._queries.get(kind, ()))

    def has_kind(self, kind: str) -> bool:
        """Whether any sync is interested in objects of this kind."""
        return kind in self._names or kind in self._queries
