"""The data folder of one gateway: assess a plan, stage it, check it, publish it, find drift.

All methods block, and raise `FilesError` if the folder cannot be used. They are called by one thread at a time.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from syncline.core.edit_paths import EditRules
from syncline.core.gateway_content import MAX_RENDERED_BYTES, ContentRules, FileContentError, render_content, rules_for
from syncline.core.gateway_plan import MAX_BLOB_BYTES, GatewayPlan, PlannedFile
from syncline.core.local_edits import HeldEdits, hold_edits
from syncline.core.protected_paths import is_protected
from syncline.core.publish_plan import (
    RESOURCE_FILE,
    LiveFile,
    ManagedFile,
    PublishPlan,
    PublishRules,
    WantedFile,
    plan_publish,
)
from syncline.core.resource_check import is_json, json_problem, resource_problems
from syncline.files.errors import FilesError
from syncline.files.folder import Folder
from syncline.files.lock import FolderLock
from syncline.files.manifest import load_manifest
from syncline.files.publish import Publication, publish
from syncline.files.snapshots import TakenSnapshot
from syncline.files.stage import BlobWriter, StagedFile, StageFolder

_SHOWN = 5


class CheckError(Exception):
    """The staged files must not be published. The reason is for the status, the message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Assessment(Struct):
    """The changes that a plan makes to the folder, before the content of new files is known."""

    wanted: dict[str, WantedFile]
    live: dict[str, LiveFile]
    rules: PublishRules
    draft: PublishPlan
    blobs: dict[str, int]
    """The sizes of the blobs that are missing, by id."""
    held: HeldEdits = HeldEdits()
    """The local edits that stay."""


class FolderSync:
    """The data folder with its lock and its manifest."""

    def __init__(self, data: str) -> None:
        """Open the folder and take its lock. Raises `FilesError`."""
        self.folder = Folder(data)
        try:
            self._lock = FolderLock(self.folder)
            self.manifest = load_manifest(self.folder)
            self._read: dict[str, ManagedFile] = {}
        except BaseException:
            self.folder.close()
            raise

    def close(self) -> None:
        """Close the folder and release its lock."""
        self._lock.release()
        self.folder.close()

    def reload(self) -> None:
        """Read the manifest again, after an incomplete publish."""
        self.folder.forget()
        self.manifest = load_manifest(self.folder)

    def assess(self, plan: GatewayPlan, settled: Mapping[str, str] | None = None) -> Assessment:
        """Compare a plan with the folder. `settled`: the hashes of edits that were sent or are never sent, by path."""
        self.folder.forget()
        live = {path: found for path, found in self._observe(plan) if found is not None}
        wanted = {file.path: self._wanted(file, plan, live.get(file.path)) for file in plan.files}
        held = self._hold(plan, wanted, live, settled or {})
        rules = PublishRules(
            drift=plan.drift,
            missing=frozenset(mapping.destination for mapping in plan.mappings if mapping.missing),
            left=held.left,
            confirmed=plan.confirmed_deletion,
        )
        draft = plan_publish(wanted, self._managed(plan), live, rules)
        sizes = {file.blob: file.size for file in plan.files}
        needed = {wanted[path].blob for path in draft.writes}
        missing = needed - StageFolder(self.folder).blobs(needed)
        return Assessment(wanted, live, rules, draft, {blob: sizes[blob] for blob in sorted(missing)}, held)

    def _hold(
        self,
        plan: GatewayPlan,
        wanted: Mapping[str, WantedFile],
        live: Mapping[str, LiveFile],
        settled: Mapping[str, str],
    ) -> HeldEdits:
        """Decide which local edits stay. Files from before the first publish are no edits."""
        if plan.send_back is None or not self.manifest.commit:
            return HeldEdits()
        rules = EditRules(plan)
        watched = [path for path in sorted({*wanted, *self.manifest.files}) if rules.watches(path)]
        return hold_edits(watched, wanted, self.manifest.files, live, settled=settled, strategy=plan.send_back.conflict)

    def observe(self, path: str, entry: ManagedFile | None = None) -> LiveFile | None:
        """Return the state of a path. A file is not read again while its stamp is the same."""
        live = self.folder.observe(path, self._read.get(path) or entry)
        if live is None or live.stamp is None or (entry is not None and live.stamp == entry.stamp):
            self._read.pop(path, None)
        else:
            self._read[path] = ManagedFile(live.hash, "", "", "", "", stamp=live.stamp)
        return live

    def read_again(self, path: str) -> None:
        """Read a file again the next time, even if its stamp is the same."""
        self._read.pop(path, None)

    def blob_writer(self, blob: str, size: int) -> BlobWriter:
        """Begin to stage a blob. Raises `BlobDamagedError` at its end if its content does not match its id."""
        return StageFolder(self.folder).blob_writer(blob, size)

    def stage(self, plan: GatewayPlan, assessment: Assessment) -> Publication:
        """Stage and check all new files. Their blobs are staged already. Raises `CheckError`."""
        stage = StageFolder(self.folder)
        stage.restart()
        wanted = dict(assessment.wanted)
        staged = {}
        planned = {file.path: file for file in plan.files}
        uses = Counter(planned[path].blob for path in assessment.draft.writes)
        for path in assessment.draft.writes:
            file = planned[path]
            uses[file.blob] -= 1
            wanted[path], staged[path] = self._stage_file(stage, plan, file, last=not uses[file.blob])
        final = plan_publish(wanted, self._managed(plan), assessment.live, assessment.rules)
        if final.blocked:
            raise CheckError("PathBlocked", "; ".join(final.blocked[:_SHOWN]))
        work = Publication(
            plan=final,
            wanted=wanted,
            live=assessment.live,
            staged=staged,
            id=plan.id,
            commit=plan.commit,
            ref=plan.ref,
            unprotected=plan.rules.unprotected,
            destinations=frozenset(mapping.destination for mapping in plan.mappings),
            keep_snapshots=plan.snapshots.keep,
        )
        if problems := [*self._json_problems(work), *self._resource_problems(work)]:
            more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
            raise CheckError("CheckFailed", "; ".join(problems[:_SHOWN]) + more)
        return work

    def publish(self, work: Publication) -> TakenSnapshot | None:
        """Publish the staged files. Return the snapshot, if one was taken."""
        StageFolder(self.folder).forget_blobs()
        try:
            self.manifest, snapshot = publish(self.folder, self.manifest, work)
        except BaseException:
            self.reload()
            raise
        self.clear_stage()
        return snapshot

    def clear_stage(self) -> None:
        """Remove all staged files, for example if the volume is full."""
        StageFolder(self.folder).clear()

    def drifted(self) -> tuple[str, ...]:
        """Return the managed files that somebody has changed or deleted since they were written."""
        self.folder.forget()
        found = []
        for path, entry in self.manifest.files.items():
            live = self.observe(path, entry)
            if live is None or live.kind != "file" or live.hash != entry.hash or live.executable != entry.executable:
                found.append(path)
            elif live.stamp != entry.stamp:
                # It was written again with the same content: record its stamp, so that it is not read each time.
                self.manifest.files[path] = msgspec.structs.replace(entry, stamp=live.stamp)
        self.folder.forget()
        return tuple(sorted(found))

    def _managed(self, plan: GatewayPlan) -> dict[str, ManagedFile]:
        """Return the managed files. A file that the plan protects again is no longer managed, and stays."""
        unprotected = plan.rules.unprotected
        return {path: entry for path, entry in self.manifest.files.items() if not is_protected(path, unprotected)}

    def _observe(self, plan: GatewayPlan) -> Iterator[tuple[str, LiveFile | None]]:
        for path in sorted({*self.manifest.files, *(file.path for file in plan.files)}):
            yield path, self.observe(path, self.manifest.files.get(path))

    def _wanted(self, file: PlannedFile, plan: GatewayPlan, live: LiveFile | None) -> WantedFile:
        rules, mapping = rules_for(file, plan), plan.mappings[file.mapping]
        entry = self.manifest.files.get(file.path)
        used = entry.used if entry is not None else ()
        recipe = rules.recipe(plan.rules.values, used)
        return WantedFile(
            blob=file.blob,
            destination=mapping.destination,
            source=mapping.source,
            hash=self._known_hash(file, rules, recipe, entry, live),
            recipe=recipe,
            used=used,
            executable=file.executable,
        )

    def _known_hash(
        self, file: PlannedFile, rules: ContentRules, recipe: str, entry: ManagedFile | None, live: LiveFile | None
    ) -> str:
        """Return the hash that a file will have, if the manifest or the present file shows it."""
        if entry is not None and entry.blob == file.blob and entry.recipe == recipe:
            return entry.hash
        if rules.any or live is None or live.kind != "file" or live.stamp is None or live.stamp.size != file.size:
            return ""
        return live.hash if self.folder.blob_id(file.path, like=file.blob) == file.blob else ""

    def _stage_file(
        self, stage: StageFolder, plan: GatewayPlan, file: PlannedFile, *, last: bool
    ) -> tuple[WantedFile, StagedFile]:
        rules, mapping = rules_for(file, plan), plan.mappings[file.mapping]
        used: tuple[str, ...] = ()
        if rules.any:
            if file.size > MAX_RENDERED_BYTES:
                raise CheckError(
                    "ContentFailed", f"{file.path} is larger than {MAX_RENDERED_BYTES} bytes: too large for templates"
                )
            try:
                raw = stage.read_blob(file.blob, MAX_RENDERED_BYTES)
                content, used = render_content(file.path, raw, rules, plan.rules.values)
            except FileContentError as error:
                raise CheckError("ContentFailed", str(error)) from None
            staged = stage.add_file(content, executable=file.executable)
        else:
            staged = stage.add_copy(file.blob, executable=file.executable, last=last)
        return WantedFile(
            blob=file.blob,
            destination=mapping.destination,
            source=mapping.source,
            hash=staged.hash,
            recipe=rules.recipe(plan.rules.values, used),
            used=used,
            executable=file.executable,
        ), staged

    def _json_problems(self, work: Publication) -> Iterator[str]:
        for path in work.plan.writes:
            if is_json(path):
                problem = json_problem(path, self.folder.read(work.staged[path].place, MAX_BLOB_BYTES))
                if problem:
                    yield problem

    def _resource_problems(self, work: Publication) -> Iterator[str]:
        """Check the resources of all folders that the publish changes."""
        doomed = {*work.plan.first, *work.plan.deletes}

        def exists(path: str) -> bool:
            if path in work.wanted or path in work.plan.retained:
                return True
            return path not in doomed and self.folder.is_file(path)

        touched = {path.rpartition("/")[0] for path in work.plan.touched}
        folders = touched | {folder.rpartition("/")[0] for folder in touched}
        for folder in sorted(folders):
            path = f"{folder}/{RESOURCE_FILE}" if folder else RESOURCE_FILE
            if path not in work.wanted:
                continue
            try:
                place = work.staged[path].place if path in work.plan.writes else path
                content = msgspec.json.decode(self.folder.read(place, MAX_RENDERED_BYTES))
            except (ValueError, RecursionError, FileNotFoundError, FilesError):
                continue  # not JSON: reported already, or not checked
            yield from resource_problems(path, content, exists)
