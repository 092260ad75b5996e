"""The diff of two plans of a gateway: the files that change. Pure."""

from collections.abc import Hashable

from msgspec import Struct

from syncline.core.gateway_plan import GatewayPlan, PlannedFile

_OF_COMMIT = frozenset({"commit", "ref"})
"""Values that differ in every commit. Most templates do not use them."""


class PathChanges(Struct, frozen=True, kw_only=True):
    """Paths below the data folder."""

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether a file changes."""
        return bool(self.added or self.modified or self.deleted)


def file_changes(before: GatewayPlan | None, after: GatewayPlan) -> PathChanges:
    """Return the changes of files from one plan to another. A plan that does not publish changes none.

    A template is modified if its text, its patches or the values for templates differ.
    """
    if after.action != "Publish":
        return PathChanges()
    old = {file.path: file for file in before.files} if before is not None else {}
    new = {file.path: file for file in after.files}
    missing = {(one.source, one.destination) for one in after.mappings if one.missing}
    modified, deleted = [], []
    if before is not None:
        modified = [p for p in old.keys() & new.keys() if _content(before, old[p]) != _content(after, new[p])]
        # Files of a mapping are not deleted while its source is missing.
        deleted = [path for path in old.keys() - new.keys() if _mapping(before, old[path]) not in missing]
    return PathChanges(
        added=tuple(sorted(new.keys() - old.keys())), modified=tuple(sorted(modified)), deleted=tuple(sorted(deleted))
    )


def _mapping(plan: GatewayPlan, file: PlannedFile) -> tuple[str, str]:
    one = plan.mappings[file.mapping]
    return one.source, one.destination


def _content(plan: GatewayPlan, file: PlannedFile) -> tuple[Hashable, ...]:
    """Return the inputs of the content of a file."""
    mapping = plan.mappings[file.mapping]
    values: tuple[Hashable, ...] = ()
    if mapping.template or mapping.patches:
        values = tuple(sorted((name, text) for name, text in plan.rules.values.items() if name not in _OF_COMMIT))
    patches = tuple((patch.file, *sorted(patch.set.items())) for patch in mapping.patches)
    return file.blob, file.executable, mapping.template, patches, values
