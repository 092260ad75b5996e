"""Line numbers of invalid fields in the files of a source."""

from collections.abc import Sequence
from typing import Protocol

from syncline.controllers.sources.tree import SourceTree
from syncline.core.fielderrors import FieldError
from syncline.core.validity import NAMED
from syncline.git import GitError
from syncline.render.errors import RenderFailed


class LineFinder(Protocol):
    """Finds the lines of fields in a file."""

    async def field_lines(self, tenant: str, content: bytes, fields: Sequence[tuple[int, str]]) -> list[int]:
        """Return the line of each field; 0 for a field that is not found. Raises `RenderFailed`."""


async def at_field_lines(
    finder: LineFinder, source_tree: SourceTree, tenant: str, errors: Sequence[tuple[str, FieldError]]
) -> list[str]:
    """Return the place of each error as `FILE:LINE`, given the place of its document.

    It is the place of the document if the field cannot be found: in the output of a tool, or in a template.
    """
    places = [place for place, _ in errors]
    by_file: dict[str, list[int]] = {}
    for index, place in enumerate(places[:NAMED]):
        file, _, line = place.rpartition(":")
        if file and line.isdecimal():
            by_file.setdefault(file, []).append(index)
    for file, indexes in by_file.items():
        fields = [(int(places[index].rpartition(":")[2]), errors[index][1].path) for index in indexes]
        try:
            content = (await source_tree.read([file])).get(file)
            lines = await finder.field_lines(tenant, content, fields) if content else []
        except (GitError, RenderFailed):
            continue
        for index, found in zip(indexes, lines, strict=False):
            if found:
                places[index] = f"{file}:{found}"
    return places
