"""The worker process for builds: `python -I -m syncline.render.workers.build`.

It confines itself, then serves jobs until end of input. It decrypts, templates, evaluates, parses and validates: all
that reads what somebody pushed. It holds nothing of one job while it works on the next, but for the schemas of clusters
(see `schemacheck`). When a job takes too much memory or time it dies; its parent says so.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyrage

from syncline.render import jsonnet, sops
from syncline.render.build_spec import Document
from syncline.render.documents import check_count, manifests_of, manifests_of_output, manifests_of_value
from syncline.render.errors import BuildError
from syncline.render.manifests import field_lines
from syncline.render.templates import FileTemplates
from syncline.render.workers.confinement import BUILD_MEMORY, confine
from syncline.render.workers.loop import serve
from syncline.render.workers.protocol import (
    FRAME_BYTES,
    Begin,
    BuildAnswer,
    BuildJob,
    Data,
    Done,
    Evaluate,
    Failed,
    Foreign,
    Found,
    Lacking,
    Learn,
    Locate,
    Located,
    Note,
    Parse,
    Prepare,
    Prepared,
    Ready,
    Sort,
    Text,
    Validate,
    Wrong,
    decode_build_job,
)

if TYPE_CHECKING:
    from syncline.render.schemacheck import SchemaChecker

SHOWN_HOOKS = 10
DOCUMENT_BYTES = 3 * 1024 * 1024
"""The maximum size of a request that an API server accepts."""


def work(job: BuildJob) -> Iterator[BuildAnswer]:
    """Yield the answers to a job. The last answer is Done or Failed."""
    try:
        yield from _built(job) if isinstance(job, Prepare | Parse | Sort | Evaluate | Locate) else _checked(job)
    except BuildError as error:
        yield Failed(error.file, error.line, error.cause)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - an unexpected error is reported as such, and ends no child
        yield Failed("", 0, f"the build failed because of a bug in Syncline ({type(error).__name__}): please report it")
    else:
        yield Done()


def _built(job: Prepare | Parse | Sort | Evaluate | Locate) -> Iterator[BuildAnswer]:
    match job:
        case Prepare():
            yield from _prepare(job)
        case Parse():
            yield from _parse(job)
        case Sort():
            yield from _sort(job)
        case Evaluate():
            yield from _evaluate(job)
        case Locate():
            yield Located(field_lines(job.content.decode(errors="replace"), job.fields))


def _prepare(job: Prepare) -> Iterator[BuildAnswer]:
    templates = FileTemplates(job.values, job.variables)
    for file in job.files:
        if sops.is_encrypted(file.path, file.content):
            yield _decrypted(file, job.keys)
        elif file.template:
            content = templates.render(file.path, file.content)
            if content is not file.content:
                yield Prepared(file.path, content, decrypted=False)


# The program has no network, so it cannot call a key service itself.
_ONLY_PROGRAM = (
    "a key service opens it, but only the sops program reads this file (an INI file, YAML with aliases, or values that "
    "were changed after they were encrypted): encrypt it for an age key too"
)


def _decrypted(file: Text, keys: dict[str, bytes] | None) -> BuildAnswer:
    if keys is None:
        raise BuildError(
            "is encrypted with SOPS, and the sync has no spec.decryption: write the Secret with the key", file=file.path
        )
    try:
        return Prepared(file.path, sops.decrypt(file.path, file.content, keys), decrypted=True)
    except sops.SopsError as error:
        raise BuildError(str(error), file=file.path) from None
    except sops.NeedsProgram:
        if sops.DATA_KEY in keys:
            raise BuildError(_ONLY_PROGRAM, file=file.path) from None
        return Foreign(file.path, [])
    except sops.NeedsKeyService as need:
        return Foreign(file.path, [(service, dict(entry)) for service, entry in need.entries])


def _parse(job: Parse) -> Iterator[BuildAnswer]:
    documents: list[Document] = []
    for file in job.files:
        found = manifests_of(file.path, file.content)
        if found is None:
            yield Data(file.path)
            continue
        manifests, note = found
        if note is not None:
            yield Note(note)
            yield Data(file.path)
        documents += manifests
    yield from _found(check_count(documents, job.files[0].path if job.files else ""))


def _sort(job: Sort) -> Iterator[BuildAnswer]:
    documents: list[Document] = []
    hooks: list[str] = []
    for found in manifests_of_output(job.output, job.file, job.chart, job.origins):
        if isinstance(found, str):
            hooks.append(found)
        else:
            documents.append(found)
    if hooks:
        more = len(hooks) - SHOWN_HOOKS
        shown = ", ".join(hooks[:SHOWN_HOOKS]) + (f" and {more} more" if more > 0 else "")
        yield Note(f"Helm hooks are not applied: {shown}")
    yield from _found(check_count(documents, job.file))


def _evaluate(job: Evaluate) -> Iterator[BuildAnswer]:
    value = jsonnet.evaluate(job.files, job.entry, job.libraries, job.tlas, job.ext_vars, sensitive=job.sensitive)
    yield from _found(check_count(manifests_of_value(value, job.entry), job.entry))


def _load_checker() -> "SchemaChecker | str":
    """Return the checker, or the cause of its absence: builds without validation still work."""
    try:
        from syncline.render.schemacheck import SchemaChecker  # noqa: PLC0415 - see above
    except ImportError as error:
        return (
            "install the package jsonschema-rs where the operator runs, or set spec.validation to DryRun or None: "
            f"nothing can be validated without it ({error})"
        )
    return SchemaChecker()


_checker = _load_checker()


def _checked(job: Begin | Learn | Validate) -> Iterator[BuildAnswer]:
    if isinstance(_checker, str):
        raise BuildError(_checker)
    match job:
        case Begin():
            yield Lacking(_checker.begin(job.definitions, job.digests))
        case Learn():
            _checker.learn(job.digest, job.packed)
        case Validate():
            yield from _validate(_checker, job)


def _validate(checker: "SchemaChecker", job: Validate) -> Iterator[BuildAnswer]:
    for index, (api_version, kind, fields) in enumerate(job.objects):
        errors = checker.errors(api_version, kind, fields, job.digests.get(api_version))
        if found := [(index, error.path, error.cause) for error in errors]:
            yield Wrong(found)


def _found(documents: Iterable[Document]) -> Iterator[BuildAnswer]:
    """Yield documents in small frames."""
    batch: list[tuple[str, int, dict[str, Any]]] = []
    size = 0
    for document in documents:
        length = len(msgspec.msgpack.encode(document.manifest))
        if length > DOCUMENT_BYTES:
            raise BuildError(
                f"a manifest of more than {DOCUMENT_BYTES >> 20} MiB", file=document.file, line=document.line
            )
        if batch and size + length > FRAME_BYTES:
            yield Found(batch)
            batch, size = [], 0
        batch.append((document.file, document.line, document.manifest))
        size += length
    if batch:
        yield Found(batch)


def main() -> None:
    """Confine this process, then serve jobs."""
    os.chdir("/")
    _rehearse()
    seccomp = confine(BUILD_MEMORY)
    _rehearse()
    serve(Ready(seccomp), decode_build_job, work)


def _rehearse() -> None:
    """Run each kind of job once: before the confinement, to load all modules; afterwards, to check that they work."""
    key = pyrage.x25519.Identity.generate()
    files = [
        Text("a.yaml", b"a: {{ b }}\n", template=True),
        Text("b.yaml", b"a: {{ c }}\n", template=True),
        Text("c.yaml", _SEALED % b"[]"),
        Text(
            "d.yaml",
            _SEALED % msgspec.json.encode([{"enc": pyrage.encrypt(bytes(32), [key.to_public()], armored=True)}]),
        ),
    ]
    for file in files:
        list(work(Prepare([file], {"source": {}}, {"b": 1}, {"a.agekey": str(key).encode()})))
    list(work(Parse([Text("a.yaml", b"a: [1, x, 1.5, 2001-01-01]\n---\n'b': {\n"), Text("b.json", b'{"a": 1}')])))
    list(work(Sort(b"# Source: a/b\napiVersion: v1\nkind: A\n", "a", "a")))
    for text in (b"{a: import 'b'}", b"{a: error 'b'}", b"import 'c'"):
        list(work(Evaluate({"a": text, "b": b"{}"}, "a", [], {}, {}, sensitive=False)))
    list(work(Begin([_DEFINITION], [b""])))
    list(work(Learn(b"", zlib.compress(b'{"schemas": {}}'))))
    list(work(Validate({"v1": b""}, [("v1", "A", {}), ("a/v1", "A", {"b": "", "c": 1}), ("a/v1", "A", {"b": "c"})])))


_DEFINITION = {
    "group": "a",
    "names": {"kind": "A"},
    "versions": [
        {
            "name": "v1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"b": {"type": "string", "pattern": "^c", "minLength": 1, "enum": ["c"]}},
                }
            },
        }
    ],
}
_SEALED = b"a: ENC[AES256_GCM,data:eA==,iv:eHh4eHh4eHg=,tag:eA==,type:str]\nsops:\n  age: %s\n"


if __name__ == "__main__":
    main()
