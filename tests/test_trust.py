"""What a reader may rely on in each test: it asserts something, and it waits for a condition and not for a time."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

TESTS = Path(__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# These fail when a condition does not come to hold.
WAITS = {"until", "wait_until", "eventually", "wait_for"}
ASSERTIONS = {"raises", "fail", *WAITS}

# How many waits for a time each file has, and why. A test of what does not happen has to look for a while, and a server
# that closes its connections has no event to wait for. The users and faults of `churn` take their time: not listed.
TIMED = {
    "agent/depot.py": (1, "connections end"),
    "configmapsync/test_twoway.py": (1, "the grace of a missing source ends, and the copy stays"),
    "faults/scene.py": (1, "nothing is written for a while"),
    "faults/test_answers.py": (1, "a refused write is tried rarely"),
    "faults/test_outages.py": (1, "etcd is down for a while: the operator has nothing to report meanwhile"),
    "faults/test_vanished_syncs.py": (1, "a copy stays"),
    "faults/test_watches.py": (1, "the events of a lying watch have their effect"),
    "fleet/test_fleet.py": (2, "a connection stays open"),
    "fleet/test_rotation.py": (1, "a refused credential is tried rarely"),
    "fleet/test_synctarget.py": (2, "nothing is written for a while"),
    "fleet/world.py": (2, "connections end"),
    "kube/test_queue.py": (1, "nothing begins"),
    "manifestsync/admission.py": (1, "connections end"),
    "soak/test_soak.py": (1, "two counts that are apart in time are equal"),
}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(TESTS)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
    }


class Function(NamedTuple):
    """A function of the tests: its name, the names that it calls, and whether it asserts by itself."""

    name: str
    calls: set[str]
    asserts: bool

    @classmethod
    def read(cls, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Self:
        nodes = list(ast.walk(function))
        called = [node.func for node in nodes if isinstance(node, ast.Call)]
        names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}
        return cls(
            function.name, names, any(isinstance(node, ast.Assert) for node in nodes) or bool(names & ASSERTIONS)
        )

    @property
    def is_test(self) -> bool:
        return self.name.startswith("test_")


def test_every_test_asserts_something() -> None:
    by_file = {
        path: [Function.read(node) for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
        for path, tree in trees().items()
    }
    # A helper of another file counts if it waits for a condition: other helpers only arrange the scene.
    shared = {one.name for functions in by_file.values() for one in functions if one.calls & WAITS} | WAITS
    silent = []
    for path, functions in by_file.items():
        helpers = [one for one in functions if not one.is_test]
        asserting = shared | {one.name for one in helpers if one.asserts}
        asserting |= {one.name for one in helpers if one.calls & asserting}
        tests = [one for one in functions if one.is_test]
        silent += [f"{path}: {one.name}" for one in tests if not one.asserts and not one.calls & asserting]
    assert silent == []


def sleeps(tree: ast.AST, *, looped: bool = False) -> Iterator[ast.Call]:
    """Yield each sleep for a time that is not in a loop; a sleep of 0 lets other tasks run and is none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep":
            yields = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if not looped and not yields:
                yield node
        yield from sleeps(node, looped=looped or isinstance(node, ast.While))


def test_every_wait_for_a_time_is_named_with_its_reason() -> None:
    timed = {path: len(list(sleeps(tree))) for path, tree in trees().items() if not path.startswith("churn/")}
    assert {path: count for path, count in timed.items() if count} == {
        path: count for path, (count, _) in TIMED.items()
    }
