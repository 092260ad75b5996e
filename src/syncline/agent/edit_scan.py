"""Finds local edits in the folders that a plan watches, and reads them. All functions block."""

import hashlib
import stat
from collections.abc import Iterator

from msgspec import Struct, field

from syncline.agent.folder_sync import FolderSync
from syncline.core.credential_scan import CredentialScanner
from syncline.core.edit_paths import EditRules
from syncline.core.gateway_plan import MAX_BLOB_BYTES
from syncline.core.local_edits import DELETED, LocalEdit, edit_hash
from syncline.files.errors import FilesError, as_text

MAX_ENTRIES = 100_000
"""The maximum number of files and folders that a search for new files visits."""


class EditChangedError(Exception):
    """A file was changed while it was read."""


class FoundEdits(Struct):
    """All local edits at one time."""

    edits: dict[str, LocalEdit] = field(default_factory=dict)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The edits that are never sent: their hashes and the reasons."""
    problem: str = ""


def find_edits(sync: FolderSync, rules: EditRules) -> FoundEdits:
    """Find all edits. Only changed files are read. Raises `FilesError`."""
    sync.folder.forget()
    found = FoundEdits()
    most = min(rules.limits.max_file_bytes, MAX_BLOB_BYTES)
    for path, entry in sync.manifest.files.items():
        if not rules.watches(path):
            continue
        live = sync.observe(path, entry)
        known = edit_hash(live)
        if known is None or known == entry.hash or (known == DELETED and path not in rules.files):
            continue
        size = live.stamp.size if live is not None and live.stamp is not None else 0
        _add(found, rules, LocalEdit(path, known, size, entry.blob), most)
    try:
        for path, size in _new_files(sync, rules):
            if size > most and path not in rules.files:
                _refuse(found, path, f"{size} bytes", _too_large(most))
                continue
            live = sync.observe(path)
            if live is not None and live.kind == "file" and live.hash:
                _add(found, rules, LocalEdit(path, live.hash, size), most)
    except _TooManyError:
        found.problem = f"bidirectional.watchPaths has more than {MAX_ENTRIES} files and folders: watch fewer folders"
    sync.folder.forget()
    return found


def read_edit(sync: FolderSync, edit: LocalEdit) -> Iterator[bytes]:
    """Yield the content of an edit. Raises `EditChangedError` before the end if the file has changed meanwhile.

    The last piece is yielded only after the whole content has been verified.
    """
    digest = hashlib.sha256()
    left, held = edit.size, b""
    try:
        for chunk in sync.folder.chunks(edit.path):
            digest.update(chunk)
            left -= len(chunk)
            if left < 0:
                break
            if held:
                yield held
            held = chunk
    except FileNotFoundError:
        left = -1
    if left or digest.hexdigest() != edit.hash:
        sync.read_again(edit.path)
        raise EditChangedError(edit.path)
    if held:
        yield held


def content_problem(sync: FolderSync, edit: LocalEdit) -> str:
    """Return why the content of an edit is never sent, or an empty text. Raises `EditChangedError`."""
    scanner = CredentialScanner()
    for chunk in read_edit(sync, edit):
        scanner.feed(chunk)
    return f"it looks like {scanner.found}" if scanner.found else ""


def _add(found: FoundEdits, rules: EditRules, edit: LocalEdit, most: int) -> None:
    if why := rules.refusal(edit.path):
        _refuse(found, edit.path, edit.hash, why)
    elif edit.size > most:
        _refuse(found, edit.path, edit.hash, _too_large(most))
    else:
        found.edits[edit.path] = edit


def _refuse(found: FoundEdits, path: str, known: str, why: str) -> None:
    found.refused[as_text(path)] = known, why


def _too_large(most: int) -> str:
    return f"it has more than {most} bytes (guardrails.maxFileSize)"


class _TooManyError(Exception):
    """There are too many files to visit."""


def _new_files(sync: FolderSync, rules: EditRules) -> Iterator[tuple[str, int]]:
    """Yield the files in watched folders that are not managed, with their sizes."""
    folders = [folder for folder in rules.folders() if not folder or not rules.skips(folder)]
    seen = 0
    while folders:
        folder = folders.pop()
        try:
            entries = sync.folder.entries(folder)
        except FilesError as error:
            if error.reason != "UnsafePath":
                raise
            continue  # a link, or something else that is not a folder
        seen += len(entries)
        if seen > MAX_ENTRIES:
            raise _TooManyError
        for name, what in entries:
            path = f"{folder}/{name}" if folder else name
            if name.startswith("."):
                continue
            if stat.S_ISDIR(what.st_mode):
                if not rules.skips(path):
                    folders.append(path)
            elif stat.S_ISREG(what.st_mode) and path not in sync.manifest.files and rules.watches(path):
                yield path, what.st_size
