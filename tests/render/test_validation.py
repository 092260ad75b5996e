"""Objects are checked against schemas in a child; schemas and objects are anybody's, and cost nobody else anything."""

import asyncio
import hashlib
import sys
import zlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.render.test_hostile_builds import Watch, watch

from syncline.render import validation
from syncline.render.build_pool import BuildPool
from syncline.render.errors import RenderFailed
from syncline.render.schemacheck import COMPILED, ERRORS, SchemaChecker
from syncline.render.validation import Candidate, InvalidObject, Schema, Validation

__all__ = ["watch"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
STRING: Json = {"type": "string"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def builder() -> AsyncIterator[BuildPool]:
    async with BuildPool(deadline=2.0) as builder:
        yield builder


def schema(**definitions: Json) -> Schema:
    """Make a document of OpenAPI of definitions; each is of a kind of its name, of the group a.example.com."""
    marked = {
        name: {"x-kubernetes-group-version-kind": [{"group": "a.example.com", "version": "v1", "kind": name}], **one}
        for name, one in definitions.items()
    }
    components = msgspec.json.encode({"schemas": marked})
    return Schema(hashlib.blake2b(components, digest_size=16).digest(), zlib.compress(components))


def kind(**properties: Json) -> Json:
    """Make the definition of a kind whose spec has these properties."""
    head = dict.fromkeys(("apiVersion", "kind"), STRING)
    return {"type": "object", "properties": {**head, "spec": {"type": "object", "properties": properties}}}


def definition(schema: Any, name: str = "B", *versions: str) -> Json:
    """Make the spec of a CustomResourceDefinition of the group b.example.com."""
    served = [{"name": one, "schema": {"openAPIV3Schema": schema}} for one in versions or ("v1",)]
    return {"group": "b.example.com", "names": {"kind": name}, "versions": served}


def of_cluster(spec: Any, name: str = "A") -> Candidate:
    return Candidate("a.example.com/v1", name, {"spec": spec})


def of_revision(spec: Any, name: str = "B", version: str = "v1") -> Candidate:
    return Candidate(f"b.example.com/{version}", name, {"spec": spec})


def check(
    *objects: Candidate, schemas: Schema | None = None, definitions: tuple[Any, ...] = (), tenant: str = "honest"
) -> Validation:
    content = msgspec.json.encode(([*objects], schemas, definitions))
    return Validation(
        tenant=tenant,
        what="objects",
        digest=hashlib.blake2b(content).digest(),
        objects=objects,
        schemas={"a.example.com/v1": schemas} if schemas is not None else {},
        definitions=definitions,
    )


def told(found: list[InvalidObject]) -> list[str]:
    return [f"{one.index} {one.error}" for one in found]


async def test_objects_are_checked_against_the_schemas_of_a_cluster(builder: BuildPool) -> None:
    schemas = schema(A=kind(image=STRING))
    found = await builder.validate(check(of_cluster({"image": "a"}), of_cluster({"imagee": "a"}), schemas=schemas))
    assert told(found) == ["1 spec.imagee: unknown field: did you mean image?"]


async def test_a_definition_of_the_same_revision_wins_over_that_of_the_cluster(builder: BuildPool) -> None:
    old = schema(A=kind(colour=STRING))
    new = {"group": "a.example.com", "names": {"kind": "A"}, **definition(kind(color=STRING))}
    new = {**new, "group": "a.example.com", "names": {"kind": "A"}}
    objects = (of_cluster({"color": "red"}), of_cluster({"colour": "red"}))
    assert told(await builder.validate(check(*objects, schemas=old, definitions=(new,)))) == [
        "1 spec.colour: unknown field: did you mean color?"
    ]
    # It was of that revision alone.
    assert told(await builder.validate(check(*objects, schemas=old))) == [
        "0 spec.color: unknown field: did you mean colour?"
    ]


async def test_kinds_that_nobody_describes_are_left_to_the_server(builder: BuildPool) -> None:
    objects = (of_cluster({"any": 1}, "Other"), of_revision({"any": 1}), Candidate("c/v1", "C", {}))
    assert await builder.validate(check(*objects, schemas=schema(A=kind()))) == []


async def test_null_is_no_value(builder: BuildPool) -> None:
    schemas = schema(A=kind(image=STRING, args={"type": "array", "items": STRING}))
    assert await builder.validate(check(of_cluster({"image": None, "args": None}), schemas=schemas)) == []


async def test_patterns_are_read_as_servers_read_them(builder: BuildPool) -> None:
    patterns = {"a": r"^[a-z]+\z", "b": "(?i)^x$", "c": "^(?=look)ahead", "d": "["}
    schemas = schema(A=kind(**{name: {"type": "string", "pattern": one} for name, one in patterns.items()}))
    assert await builder.validate(check(of_cluster({"a": "abc", "b": "X", "c": "?", "d": "?"}), schemas=schemas)) == []
    assert told(await builder.validate(check(of_cluster({"a": "ABC"}), schemas=schemas))) == [
        r"0 spec.a: must match ^[a-z]+\z"
    ]


async def test_many_errors_are_named_up_to_a_limit(builder: BuildPool) -> None:
    wrong = of_cluster({f"x{number}": 1 for number in range(100)})
    found = await builder.validate(check(*[wrong] * 20, schemas=schema(A=kind(a=STRING))))
    assert len(found) == validation.NAMED
    assert [one.index for one in found].count(0) == ERRORS


async def test_ten_thousand_objects_are_checked_in_parts(builder: BuildPool, watch: Watch) -> None:
    objects = [of_cluster({"image": "x" * 1000}) for _ in range(10_000)]
    objects[7_000] = of_cluster({"imagee": ""})
    found = await builder.validate(check(*objects, schemas=schema(A=kind(image=STRING))))
    assert told(found) == ["7000 spec.imagee: unknown field: did you mean image?"]
    assert watch.longest_stall < 4


async def test_a_child_that_knows_the_schemas_is_not_sent_them_again(
    builder: BuildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = schema(A=kind(image=STRING, once=STRING))
    await builder.validate(check(of_cluster({"image": "a"}), schemas=schemas))
    monkeypatch.setattr(validation, "Learn", None)
    assert told(await builder.validate(check(of_cluster({"imagee": "a"}), schemas=schemas)))


async def test_few_schemas_are_kept() -> None:
    checker = SchemaChecker()
    for number in range(COMPILED + 10):
        one = schema(**{f"A{number}": kind(a=STRING)})
        assert checker.begin([], [one.digest]) == [one.digest]
        checker.learn(one.digest, one.packed)
        assert [*checker.errors("a.example.com/v1", f"A{number}", {"spec": {"b": 1}}, one.digest)]
    assert len(checker._compiled) == COMPILED


DEEP: Json = STRING
for _ in range(190):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


def wide(fields: int) -> Json:
    return {"type": "object", "properties": {f"p{number}": STRING for number in range(fields)}}


# Each answers with errors, with nothing, or not in time; none may cost more than a child.
BOMBS: dict[str, Validation] = {
    "a pattern that backtracks": check(
        of_revision({"a": "a" * 1_000_000 + "!"}),
        definitions=(definition(kind(a={"type": "string", "pattern": "^(a+)+$"})),),
    ),
    "a thousand patterns": check(
        of_revision({f"p{n}": "a" * 1000 for n in range(1000)}),
        definitions=(
            definition(kind(**{f"p{n}": {"type": "string", "pattern": f"(a?){{{n}}}a{{{n}}}"} for n in range(1000)})),
        ),
    ),
    "a wide schema": check(of_revision({}), definitions=(definition(kind(a=wide(50_000))),)),
    "a schema in a hundred versions": check(
        *(of_revision({}, version=f"v{n}") for n in range(100)),
        # Together as large as a manifest may be.
        definitions=(definition(kind(a=wide(1_500)), "B", *(f"v{n}" for n in range(100))),),
    ),
    "a deep schema": check(of_revision({"a": {"b": 1}}), definitions=(definition(DEEP),)),
    "a schema that is none": check(of_revision({}), definitions=([], {"versions": 1}, definition(["x"]))),
    "a choice of many": check(
        of_revision({"a": "x"}), definitions=(definition(kind(a={"enum": [str(n) for n in range(300_000)]})),)
    ),
    "choices of choices": check(
        of_cluster({"a": 1}, "D0"),
        schemas=schema(
            **{f"D{n}": {"anyOf": [{"$ref": f"#/components/schemas/D{n + 1}"} for _ in range(2)]} for n in range(60)},
            D60={"type": "string"},
        ),
    ),
    "references in a circle": check(
        of_cluster({"a": 1}, "D0"),
        schemas=schema(D0={"$ref": "#/components/schemas/D1"}, D1={"$ref": "#/components/schemas/D0"}),
    ),
    "a schema that contains itself": check(
        of_cluster(msgspec.json.decode('{"a":' * 150 + "{}" + "}" * 150), "D0"),
        schemas=schema(
            D0={
                "type": "object",
                "properties": {"spec": {"$ref": "#/components/schemas/D0"}, "a": {"$ref": "#/components/schemas/D0"}},
                "anyOf": [{"$ref": "#/components/schemas/D0"}, {"not": {"$ref": "#/components/schemas/D0"}}],
            }
        ),
    ),
    "an object with many errors": check(
        of_revision({f"x{n}": n for n in range(200_000)}), definitions=(definition(kind(a=STRING)),)
    ),
    "an object with a long list of errors": check(
        of_revision({"a": list(range(300_000))}),
        definitions=(definition(kind(a={"type": "array", "items": STRING})),),
    ),
    "a document that is no document": check(of_cluster({}), schemas=Schema(b"1", zlib.compress(b"[" * 5_000_000))),
    "a document without shape": check(of_cluster({}), schemas=Schema(b"2", zlib.compress(b'{"schemas": [1]}'))),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
async def test_a_hostile_schema_costs_nobody_else_anything(builder: BuildPool, watch: Watch, bomb: Validation) -> None:
    honest = schema(A=kind(image=STRING))
    async with asyncio.timeout(240):
        said: list[str] = []
        try:
            said = told(await builder.validate(msgspec.structs.replace(bomb, tenant="hostile")))
        except RenderFailed as error:
            said = [str(error)]
        assert all(len(one) < 1000 for one in said)
        assert told(await builder.validate(check(of_cluster({"imagee": "a"}), schemas=honest)))
    assert watch.peak_memory < 200 * 1024 * 1024
    assert watch.longest_stall < 1


async def test_what_was_stopped_is_left_alone_until_it_changes(builder: BuildPool) -> None:
    bomb = BOMBS["choices of choices"]
    with pytest.raises(RenderFailed, match="was stopped"):
        await builder.validate(bomb)
    with pytest.raises(RenderFailed) as second:
        await builder.validate(bomb)
    assert second.value.retry_after > 0


async def test_the_memory_that_schemas_take_is_not_held_against_the_next_job(builder: BuildPool) -> None:
    asked: list[bool] = []

    async def crashes_at_first(child: Any, job: Any, *, renew: bool = True) -> Any:
        if not asked:
            asked.append(child.learned)
            child.kill()
        return await ask(child, job, renew=renew)

    ask = builder._ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "_ask", crashes_at_first)
        found = await builder.validate(check(of_cluster({"imagee": "a"}), schemas=schema(A=kind(image=STRING))))
    assert asked == [True]
    assert told(found) == ["0 spec.imagee: unknown field: did you mean image?"]


_WITHOUT_LIBRARY = """
import sys
sys.modules["jsonschema_rs"] = None
from syncline.render.workers.protocol import Begin, Parse, Text
from syncline.render.workers.build import work
manifest = Text("a.yaml", b"{apiVersion: v1, kind: A, metadata: {name: a}}")
print(*work(Begin([], [])), *work(Parse([manifest])), sep="\\n")
"""


async def test_a_missing_validator_is_named_and_builds_go_on() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", _WITHOUT_LIBRARY, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()
    refused, *built = said.decode().splitlines()
    assert "install the package jsonschema-rs where the operator runs" in refused
    assert "Failed" in refused
    assert [line.partition("(")[0] for line in built] == ["Found", "Done"]
