"""Validation in a worker process: objects against the schemas of a cluster, and of CRDs in the same revision.

Schemas of clusters are cached between jobs by the digest of their content, so that nobody can replace a schema that
others use. They are public, and their number is limited: see `DOCUMENT_BYTES` and `COMPILED`. The CRDs of a revision
are dropped at the next revision.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import re2
from jsonschema_rs import Draft202012Validator, ValidationError, Validator

from syncline.core.fielderrors import FieldError, describe
from syncline.core.openapi_schemas import OpenApiSchemas
from syncline.core.schemas import PATTERN, Json, SchemaTooLarge, defined_schema, published_schema

DOCUMENT_BYTES = 6 * 1024 * 1024
COMPILED = 24
"""The cache limits: bytes of schemas (Kubernetes has 2.5 MiB), and compiled kinds of about 1 MiB each."""

ERRORS = 20
"""The maximum number of reported errors of one object."""

_PATTERN_MEMORY = 1024 * 1024

Key = tuple[bytes, str, str]
"""The origin of a schema (a digest, or `_REVISION`), an API version and a kind."""

_REVISION = b""


class _SchemaDocument:
    """The schemas of one API version. Without a kind, the server itself must check."""

    def __init__(self, components: bytes) -> None:
        self.size = len(components)
        self._schemas = OpenApiSchemas(components)

    def schema(self, api_version: str, kind: str) -> Json | None:
        """Return the schema of a kind."""
        name = self._schemas.name_of(api_version, kind)
        return published_schema(name, self._schemas.definition) if name is not None else None


class SchemaChecker:
    """Checks objects. Its cache lives as long as the worker."""

    def __init__(self) -> None:
        self._documents: dict[bytes, _SchemaDocument] = {}
        self._compiled: dict[Key, Validator | None] = {}
        """In the order of use: the most recently used is the last."""
        self._definitions: dict[tuple[str, str], Any] = {}

    def begin(self, definitions: Iterable[Any], digests: Sequence[bytes]) -> list[bytes]:
        """Start a revision with the specs of its CRDs and its schemas; return the missing schemas."""
        self._definitions = {}
        for key in [key for key in self._compiled if key[0] == _REVISION]:
            del self._compiled[key]
        for spec in definitions:
            self._define(spec)
        for digest in digests:
            if (known := self._documents.pop(digest, None)) is not None:
                self._documents[digest] = known
        needed = {*digests}
        while sum(one.size for one in self._documents.values()) > DOCUMENT_BYTES:
            oldest = next(iter(self._documents))
            if oldest in needed:
                break
            del self._documents[oldest]
        return [digest for digest in digests if digest not in self._documents]

    def learn(self, digest: bytes, packed: bytes) -> None:
        """Add the schemas of an API version."""
        self._documents[digest] = _SchemaDocument(zlib.decompress(packed))

    def errors(self, api_version: str, kind: str, fields: Json, digest: bytes | None) -> Iterator[FieldError]:
        """Return the errors in the fields of an object, except metadata; none if there is no schema."""
        validator = self._validator(api_version, kind, digest)
        if validator is None:
            return
        value = {"apiVersion": api_version, "kind": kind, **fields}
        _drop_nulls(value)
        if validator.is_valid(value):
            return
        schema = self._schema(api_version, kind, digest) or {}
        count = 0
        for error in validator.iter_errors(value):
            for one in _described(error, schema):
                yield one
                count += 1
                if count >= ERRORS:
                    return

    def _define(self, spec: Any) -> None:
        names = spec.get("names") if isinstance(spec, dict) else None
        versions = spec.get("versions") if isinstance(spec, dict) else None
        if not isinstance(names, dict) or not isinstance(versions, list):
            return
        for version in versions:
            schema = version.get("schema") if isinstance(version, dict) else None
            if isinstance(schema, dict):
                key = f"{spec.get('group')}/{version.get('name')}", str(names.get("kind"))
                self._definitions[key] = schema.get("openAPIV3Schema")

    def _validator(self, api_version: str, kind: str, digest: bytes | None) -> Validator | None:
        source = _REVISION if (api_version, kind) in self._definitions else digest
        if source is None:
            return None
        key = (source, api_version, kind)
        validator = self._compiled.pop(key) if key in self._compiled else _compile(self._schema(*key[1:], digest))
        self._compiled[key] = validator
        if len(self._compiled) > COMPILED:
            del self._compiled[next(iter(self._compiled))]
        return validator

    def _schema(self, api_version: str, kind: str, digest: bytes | None) -> Json | None:
        try:
            if (api_version, kind) in self._definitions:
                return defined_schema(self._definitions[api_version, kind])
            document = self._documents.get(digest) if digest is not None else None
            return document.schema(api_version, kind) if document is not None else None
        except SchemaTooLarge:
            return None


class _Pattern:
    """A pattern as API servers read it, matched in linear time. An invalid pattern matches everything."""

    def __init__(self, _parent: Json, value: Any, _path: Sequence[str | int]) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _PATTERN_MEMORY
        try:
            self._pattern = re2.compile(str(value), options)
        except re2.error:
            self._pattern = None

    def validate(self, instance: Any) -> None:
        """Raise if a text does not match."""
        if self._pattern is not None and isinstance(instance, str) and self._pattern.search(instance) is None:
            raise ValueError


def _compile(schema: Json | None) -> Validator | None:
    if schema is None:
        return None
    try:
        return Draft202012Validator(schema, keywords={PATTERN: _Pattern}, offline=True, validate_formats=False)
    except (ValueError, ValidationError):
        return None  # the server, which has the schema, decides


def _described(error: ValidationError, schema: Json) -> Iterator[FieldError]:
    keyword = error.kind.name
    # anyOf and oneOf report many errors, and at most one of them is relevant.
    detail = {} if keyword in {"anyOf", "oneOf", "not", PATTERN} else error.kind.as_dict()
    return describe(keyword, detail, error.instance_path, error.instance, _at(schema, error.schema_path[:-1]))


def _at(schema: Any, path: Iterable[str | int]) -> Json:
    for step in path:
        if isinstance(schema, dict):
            schema = schema.get(str(step))
        elif isinstance(schema, list) and isinstance(step, int) and step < len(schema):
            schema = schema[step]
    return schema if isinstance(schema, dict) else {}


def _drop_nulls(value: Any) -> None:
    """Drop null fields: for API servers they are absent."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            for name in [name for name, inside in one.items() if inside is None]:
                del one[name]
            waiting += [inside for inside in one.values() if isinstance(inside, dict | list)]
        else:
            waiting += [inside for inside in one if isinstance(inside, dict | list)]
