"""Builds manifests from a tree of files: decrypt, template, build, parse and validate.

A worker (`workers/`) or a confined program does every step that reads files of a repository.
"""

import asyncio
import hashlib
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from syncline.api.build import Helm, Jsonnet
from syncline.core.quotas import SharedTime
from syncline.programs import in_thread
from syncline.render import kustomization, sops_cli, tool_process, tools
from syncline.render.build_spec import BuildSpec, Built, DataFile, Document, Files, has_marks
from syncline.render.documents import MANIFEST_SUFFIXES
from syncline.render.errors import BuildError, RenderFailed
from syncline.render.inputs import BuildInputs, TreeReader, find_inputs
from syncline.render.key_services import KeyServices
from syncline.render.sops import DATA_KEY, may_be_encrypted
from syncline.render.temp_folders import TempFolders, write_tree
from syncline.render.tool_errors import chart_error, kustomize_error
from syncline.render.tree import FileTree, covers
from syncline.render.validation import InvalidObject, Validation, validate
from syncline.render.workers.pool import OutOfMemory, WorkerPool
from syncline.render.workers.process import BUILD, WorkerProcess
from syncline.render.workers.protocol import (
    Answer,
    BuildJob,
    Data,
    Evaluate,
    Failed,
    Foreign,
    Found,
    Locate,
    Located,
    Note,
    Parse,
    Prepare,
    Prepared,
    Sort,
    Text,
)

R = TypeVar("R")

WORKERS = 3
"""The number of concurrent builds; a single namespace gets all but one."""

INPUT_LIMIT = 24 * 1024 * 1024
MOST_FILES = 10_000
"""The limits of one build: bytes and files."""


def _nobody(_: str, __: float) -> None:
    """Ignore the time."""


class BuildPool:
    """Builds manifests, in workers that are started for work and end without work.

    Programs get their files in a new folder within `folder`, which should be in memory. It is removed afterwards.
    """

    def __init__(
        self,
        *,
        workers: int = WORKERS,
        deadline: float = 5.0,
        folder: Path | None = None,
        key_services: KeyServices | None = None,
        unconfined: bool = False,
    ) -> None:
        self._deadline = deadline
        self._folders = TempFolders(folder)
        self._key_services = key_services or KeyServices()
        self._pool = WorkerPool(BUILD, workers=workers, deadline=deadline, unconfined=unconfined)
        self._unconfined = unconfined
        self._warming: asyncio.Task[None] | None = None
        self._time = SharedTime()
        self._on_spent: Callable[[str, float], None] = _nobody

    def count(self, on_spent: Callable[[str, float], None]) -> None:
        """Report the seconds of work for each tenant; the time of concurrent work is divided between them."""
        self._on_spent = on_spent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all workers. Current builds fail with `RenderFailed`."""
        await self._pool.close()
        await self._folders.close()
        await self._key_services.close()

    def warm(self) -> None:
        """Start a worker if there is none, so that it is ready after the fetch."""
        if not self._pool.processes and (self._warming is None or self._warming.done()):
            self._warming = asyncio.get_running_loop().create_task(self._warm())

    async def _warm(self) -> None:
        with suppress(RenderFailed):  # the build reports it
            async with self._pool.slot(""), self._pool.borrow():
                pass

    async def build(self, files: Files, recipe: BuildSpec) -> Built:
        """Build the manifests; `files` must contain all paths of `inputs`, and can contain more.

        Raises BuildError if the files or the spec are not valid, and RenderFailed if the work takes too much time or
        memory, did so recently, or cannot be done at all.
        """
        tree = FileTree(files)
        plan = await find_inputs(TreeReader(tree), recipe)
        if plan.problems:
            raise plan.problems[0]
        work = _Work(tree, recipe, plan)
        digest = await asyncio.to_thread(work.digest)
        what = f"the build of {recipe.path}"
        built = await self._supervised(digest, recipe.tenant, what, lambda process: self._outcome(process, work))
        if isinstance(built, BuildError):
            raise built
        return built

    async def validate(self, work: Validation) -> list[InvalidObject]:
        """Check the objects of a revision against schemas; return the errors.

        It runs in a worker: the objects and CRDs are untrusted content of a repository, and the schemas are untrusted
        content of a cluster. Raises RenderFailed like `build`.
        """
        return await self._supervised(
            work.digest, work.tenant, f"the validation of {work.what}", lambda process: self._validated(process, work)
        )

    async def field_lines(self, tenant: str, content: bytes, fields: Sequence[tuple[int, str]]) -> list[int]:
        """Return the line of each field of a file, from the first line of its document and its path.

        It is 0 for a field that is not found. Raises RenderFailed like `build`.
        """
        digest = hashlib.blake2b(content, digest_size=16, key=b"lines").digest()
        job = Locate(content, [*fields])

        async def locate(process: WorkerProcess) -> list[Answer]:
            process.allow(self._deadline)
            try:
                return await self._ask(process, job, renew=False)
            except BuildError as error:
                raise RenderFailed(str(error)) from error

        answers = await self._supervised(digest, tenant, "a search for fields", locate)
        return next((answer.lines for answer in answers if isinstance(answer, Located)), [])

    async def _supervised(
        self, digest: bytes, tenant: str, what: str, perform: Callable[[WorkerProcess], Awaitable[R]]
    ) -> R:
        """Do some work in a worker, in fair order. Work that must be stopped is not tried again for a while."""
        if self._warming is not None:
            await asyncio.wait([self._warming])

        def reason(cause: str) -> str:
            return f"{what} {cause} and was stopped; make it simpler or split it"

        async with self._pool.supervised(digest, tenant, reason), self._pool.slot(tenant), self._counted(tenant):
            return await self._performed(perform)

    @asynccontextmanager
    async def _counted(self, tenant: str) -> AsyncIterator[None]:
        now = asyncio.get_running_loop().time
        visit = self._time.enter(now())
        try:
            yield
        finally:
            self._on_spent(tenant, self._time.leave(visit, now()))

    async def _performed(self, perform: Callable[[WorkerProcess], Awaitable[R]]) -> R:
        process: WorkerProcess | None = None
        try:
            async with self._pool.borrow() as process:
                return await perform(process)
        except OutOfMemory:
            if process is None or not process.learned:
                raise
        # The schemas of other work may have used its memory.
        async with self._pool.borrow(fresh=True) as process:
            return await perform(process)

    async def _validated(self, process: WorkerProcess, work: Validation) -> list[InvalidObject]:
        process.allow(self._deadline)
        try:
            return await validate(process, work, partial(self._ask, renew=False))
        except BuildError as error:
            raise RenderFailed(str(error)) from error

    async def _outcome(self, process: WorkerProcess, work: "_Work") -> Built | BuildError:
        """Build, and return a BuildError instead of raising it: the worker is not affected, and is kept."""
        try:
            return await self._build(process, work)
        except BuildError as error:
            return error

    async def _build(self, process: WorkerProcess, work: "_Work") -> Built:
        while work.plan.templates:
            # The paths of a kustomization are known after its rendering, then those of its bases, and so on.
            await self._prepare(process, work, work.plan.templates)
            await work.find_inputs_again()
        work.select_files()
        await self._prepare(process, work, work.paths)
        match work.plan.kind:
            case "Kustomize":
                return await self._kustomize(process, work)
            case "Helm":
                return await self._helm(process, work)
            case "Jsonnet":
                return await self._jsonnet(process, work)
            case _:
                return await self._plain(process, work)

    async def _prepare(self, process: WorkerProcess, work: "_Work", paths: Sequence[str]) -> None:
        """Decrypt the encrypted files, and render the templates."""
        texts = work.to_prepare(paths)
        if not texts:
            return
        recipe = work.recipe
        keys = None if recipe.keys is None else dict(recipe.keys)
        job = Prepare(texts, dict(recipe.variables), dict(recipe.values), keys)
        for answer in await self._ask(process, job):
            if isinstance(answer, Prepared):
                work.changed[answer.path] = answer.content
                work.decrypted |= {answer.path} if answer.decrypted else set()
            elif isinstance(answer, Foreign):
                work.changed[answer.path] = await self._decrypt(process, work, answer)
                work.decrypted.add(answer.path)
        work.done.update(text.path for text in texts)

    async def _decrypt(self, process: WorkerProcess, work: "_Work", file: Foreign) -> bytes:
        """Decrypt a file that the worker cannot decrypt: with the program, or with the key of a key service."""
        keys, content = work.recipe.keys or {}, work.content(file.path)
        if not file.services:
            seconds = self._program_seconds
            return await sops_cli.decrypt(
                file.path, content, keys, seconds=seconds, folders=self._folders, unconfined=self._unconfined
            )
        found = await self._key_services.data_key(file.path, file.services, keys)
        job = Prepare([Text(file.path, content)], {}, {}, {DATA_KEY: found})
        return next(answer.content for answer in await self._ask(process, job) if isinstance(answer, Prepared))

    async def _plain(self, process: WorkerProcess, work: "_Work") -> Built:
        texts = [Text(path, work.content(path)) for path in work.paths if path.endswith(MANIFEST_SUFFIXES)]
        data = [path for path in work.paths if not path.endswith(MANIFEST_SUFFIXES)]
        answers = await self._ask(process, Parse(texts)) if texts else []
        data += [answer.path for answer in answers if isinstance(answer, Data)]
        return Built(_documents(answers), tuple(map(work.data_file, sorted(data))), _notes(answers))

    async def _kustomize(self, process: WorkerProcess, work: "_Work") -> Built:
        kustomize = tools.find("kustomize")
        root = work.plan.path
        file = next(
            path for name in kustomization.NAMES if work.tree.file(path := posixpath.normpath(f"{root}/{name}"))
        )
        origins = "../tree/" if kustomization.can_be_base(work.content(file)) else None
        async with self._folders.folder() as folder:
            await write_tree(folder / "tree", work.tree, work.paths, work.changed)
            if origins is not None:
                await in_thread(_write_top, folder / "top", f"{origins}{root}")
            done = await tool_process.run(
                kustomize,
                # As by default, files outside of the folder of a kustomization are refused; folders can be bases.
                [
                    "build",
                    "--load-restrictor",
                    "LoadRestrictionsRootOnly",
                    f"tree/{root}" if origins is None else "top",
                ],
                folder,
                seconds=self._program_seconds,
                environment={},
                unconfined=self._unconfined,
            )
        if done.code != 0:
            said = done.errors.decode(errors="replace")
            raise kustomize_error(said, file, str(folder), sensitive=work.sensitive or work.mentions_secrets())
        answers = await self._ask(process, Sort(done.output, file, origins=origins))
        return Built(_documents(answers), (), _notes(answers))

    async def _helm(self, process: WorkerProcess, work: "_Work") -> Built:
        helm = tools.find("helm")
        recipe, chart = work.recipe, work.plan.path
        options = recipe.build.helm or Helm()
        arguments = ["template", f"--namespace={options.namespace or recipe.namespace}"]
        arguments += ["--include-crds"] if options.include_crds else []
        arguments += [f"--kube-version={recipe.kube_version}"] if recipe.kube_version else []
        arguments += [f"--api-versions={version}" for version in recipe.api_versions]
        async with self._folders.folder() as folder:
            await write_tree(folder / "tree", work.tree, work.paths, work.changed)
            for number, values in enumerate(recipe.helm_values):
                arguments.append(f"--values=values-{number}.json")
                await in_thread((folder / f"values-{number}.json").write_bytes, msgspec.json.encode(values))
            arguments += ["--", options.release_name or recipe.release, f"tree/{chart}"]
            done = await tool_process.run(
                helm,
                arguments,
                folder,
                seconds=self._program_seconds,
                environment={"HELM_NO_PLUGINS": "1"},
                unconfined=self._unconfined,
            )
        if done.code != 0:
            said = done.errors.decode(errors="replace")
            raise chart_error(said, chart, str(folder), sensitive=work.sensitive)
        file = posixpath.normpath(f"{chart}/Chart.yaml")
        answers = await self._ask(process, Sort(done.output, file, chart))
        return Built(_documents(answers), (), _notes(answers))

    async def _jsonnet(self, process: WorkerProcess, work: "_Work") -> Built:
        options = work.recipe.build.jsonnet or Jsonnet()
        job = Evaluate(
            {path: work.content(path) for path in work.paths},
            work.plan.path,
            list(options.library_paths),
            dict(options.tlas),
            dict(options.ext_vars),
            work.sensitive or work.mentions_secrets(),
        )
        answers = await self._ask(process, job)
        return Built(_documents(answers), (), _notes(answers))

    async def _ask(self, process: WorkerProcess, job: BuildJob, *, renew: bool = True) -> list[Answer]:
        """Return the answers of a worker to a job. Raises BuildError if the files are not valid."""
        answers = await self._pool.ask(process, job, renew=renew)
        if isinstance(failed := answers[-1], Failed):
            raise BuildError(failed.cause, file=failed.file, line=failed.line)
        return answers

    @property
    def _program_seconds(self) -> float:
        # The deadline includes start and end.
        return max(1.0, self._deadline - 1.0)


class _Work:
    """One build: its files, and their contents after each step."""

    def __init__(self, tree: FileTree, recipe: BuildSpec, plan: BuildInputs) -> None:
        self.tree = tree
        self.recipe = recipe
        self.plan = plan
        self.paths: list[str] = []
        """The files that the build reads, once they are known."""
        self.changed: dict[str, bytes] = {}
        """Contents that were decrypted or rendered, by path."""
        self.decrypted: set[str] = set()
        self.done: set[str] = set()

    async def find_inputs_again(self) -> None:
        """Find the inputs again, from the current contents."""
        self.plan = await find_inputs(TreeReader(self.tree, self.changed), self.recipe, self.done)
        if self.plan.problems:
            raise self.plan.problems[0]

    def select_files(self) -> None:
        """Choose the files that the build reads. Raises BuildError if there are too many."""
        self.paths = self._select()
        recipe = self.recipe
        size = sum(len(self.content(path)) for path in self.paths)
        if size > INPUT_LIMIT or len(self.paths) > MOST_FILES:
            raise BuildError(
                f"the build needs {len(self.paths)} files of {size >> 20} MiB; the limit is {MOST_FILES} files and"
                f" {INPUT_LIMIT >> 20} MiB: narrow the path",
                file=recipe.path,
            )

    def _select(self) -> list[str]:
        """Return the paths of the files that the build reads; links are followed through these paths."""
        if self.plan.kind == "Plain":
            return [path for path in self.tree.select(self.plan.path) if self.tree.file(path) is not None]
        found: list[str] = []
        for path in self.tree:
            if any(covers(known, path) for known in self.plan.paths):
                place = self.tree.follow(path)
                is_folder = self.tree.has_folder(place)
                if self.tree.entry(place) is None and not is_folder:
                    raise BuildError("is a symbolic link to a missing file", file=path)
                if not is_folder or self.plan.kind != "Jsonnet":
                    found.append(path)
        return found

    @property
    def sensitive(self) -> bool:
        """Whether the build certainly contains a secret."""
        return self.recipe.sensitive or bool(self.decrypted)

    def mentions_secrets(self) -> bool:
        """Whether a file may contain an unencrypted Secret."""
        return any(b"Secret" in self.content(path) or b"secretGenerator" in self.content(path) for path in self.paths)

    def content(self, path: str) -> bytes:
        """Return the current content of a path, with links followed."""
        place = self.tree.follow(path)
        file = self.tree.entry(place)
        return self.changed.get(place, file.content if file is not None else b"")

    def to_prepare(self, paths: Sequence[str]) -> list[Text]:
        """Return the files that may be encrypted or templates, each once."""
        texts: dict[str, Text] = {}
        for path in paths:
            place = self.tree.follow(path)
            if place in self.done:
                continue
            content = self.content(place)
            template = self._may_be_template(path, content)
            if template or may_be_encrypted(content):
                texts[place] = Text(place, content, template=template)
        return list(texts.values())

    def _may_be_template(self, path: str, content: bytes) -> bool:
        if not self.recipe.template or not has_marks(content):
            return False
        # A chart has its own templates; only its values files can be our templates.
        return self.plan.kind != "Helm" or path == posixpath.normpath(f"{self.plan.path}/values.yaml")

    def data_file(self, path: str) -> DataFile:
        """Return a file that is not a manifest."""
        place = self.tree.follow(path)
        return DataFile(path, posixpath.basename(path), self.content(path), place in self.decrypted)

    def digest(self) -> bytes:
        """Return a digest of the work."""
        hashed = hashlib.blake2b(digest_size=16)
        recipe = msgspec.structs.replace(self.recipe, keys=None)
        hashed.update(msgspec.json.encode(_plain_mapping(recipe), order="sorted"))
        for name, key in sorted((self.recipe.keys or {}).items()):
            hashed.update(hashlib.blake2b(name.encode() + b"\0" + key).digest())
        for path in self.tree:
            entry = self.tree.entry(path)
            if entry is not None and any(covers(known, path) for known in self.plan.paths):
                hashed.update(f"\0{path}\0{entry.link}\0".encode())
                hashed.update(hashlib.blake2b(entry.content).digest())
        return hashed.digest()


def _write_top(folder: Path, base: str) -> None:
    """Write a kustomization that adds only the origin of each manifest."""
    folder.mkdir()
    top = {"resources": [base], "buildMetadata": ["originAnnotations"]}
    (folder / "kustomization.yaml").write_bytes(msgspec.json.encode(top))


def _plain_mapping(recipe: BuildSpec) -> Mapping[str, Any]:
    return msgspec.structs.asdict(recipe)


def _documents(answers: list[Answer]) -> tuple[Document, ...]:
    return tuple(
        Document(manifest, file, line)
        for answer in answers
        if isinstance(answer, Found)
        for file, line, manifest in answer.documents
    )


def _notes(answers: list[Answer]) -> tuple[str, ...]:
    return tuple(answer.text for answer in answers if isinstance(answer, Note))
