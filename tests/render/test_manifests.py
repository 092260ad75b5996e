"""YAML and JSON as Kubernetes reads them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from syncline.render import manifests, tools
from syncline.render.manifests import ManifestError, field_lines, read_documents

# What plain YAML texts mean. The real reader, in helm, is asked the same below.
MEANINGS: dict[str, Any] = {
    "on": True,
    "off": False,
    "yes": True,
    "No": False,
    "y": True,
    "n": False,
    "true": True,
    "True": True,
    "tRue": "tRue",
    "~": None,
    "null": None,
    "Null": None,
    "": None,
    "'on'": "on",
    "0755": 493,
    "0o755": 493,
    "-0755": -493,
    "0x1F": 31,
    "0b11": 3,
    "08": 8,
    "0_7": 7,
    "1_000": 1000,
    "_1": "_1",
    "+5": 5,
    "1e3": 1000,
    "1.0": 1,
    "1.50": 1.5,
    "1.5e-3": 0.0015,
    ".5": 0.5,
    "5.": 5,
    "1e": "1e",
    "1.2.3": "1.2.3",
    "0x": "0x",
    "0o8": "0o8",
    "nan": "nan",
    "Infinity": "Infinity",
    "2001-01-01": "2001-01-01",
    "2001-01-01T00:00:00Z": "2001-01-01T00:00:00Z",
    "12:30": "12:30",
    "12:30:45": "12:30:45",
    "=": "=",
    "!!str 123": "123",
    "!!int '3'": 3,
    "!!float 3": 3,
    "!!bool 'yes'": True,
    "!!binary aGk=": "hi",
    "!!timestamp 2001-01-01": "2001-01-01",
    "!own bar": "bar",
    "{1: a}": {"1": "a"},
    "{true: a}": {"true": "a"},
    "{on: a}": {"true": "a"},
    "{1.5: a}": {"1.5": "a"},
    "{0755: a}": {"493": "a"},
    "{2001-01-01: a}": {"2001-01-01": "a"},
    "{x: &a [1, 2], z: *a}": {"x": [1, 2], "z": [1, 2]},
    "{x: &a {b: 1}, z: {<<: *a, b: 2}}": {"x": {"b": 1}, "z": {"b": 2}},
    "{x: &a {b: 1}, w: &c {b: 3, d: 4}, z: {<<: [*a, *c]}}": {
        "x": {"b": 1},
        "w": {"b": 3, "d": 4},
        "z": {"b": 1, "d": 4},
    },
    "|\n    a\n     b\n": "a\n b\n",
    ">-\n    a\n    b\n": "a b",
    '"\\u00e9\\x41\\n"': "éA\n",
    "'it''s'": "it's",
    "a#b": "a#b",
    "a #b": "a",
}
ERRORS = ["{null: a}", "{[1]: a}", "&a [1, *a]", ".inf", "-.inf", ".nan", "a: b: c", "@x", "%x", "[1, 2", "*no"]
# Here Kubernetes has an answer that depends on who reads; we have none.
STRICTER = ["{a: 1, a: 2}", "{yes: a, y: b}", "{x: &a {b: 1}, z: {b: 2, <<: *a}}", "99999999999999999999", "1e400"]


def read(text: str) -> list[Any]:
    return [document.value for document in read_documents(text)]


@pytest.mark.parametrize(("text", "value"), MEANINGS.items(), ids=map(repr, MEANINGS))
def test_a_value_is_what_kubernetes_takes_it_for(text: str, value: Any) -> None:
    (found,) = read(f"v: {text}\n")
    assert found == {"v": value}
    assert json.dumps(found["v"]) == json.dumps(value)


@pytest.mark.parametrize("text", [*ERRORS, *STRICTER])
def test_what_nobody_or_not_everybody_reads_alike_is_refused(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(f"first: line\nv: {text}\n")
    assert caught.value.line in {2, 3}


def test_the_table_is_what_helm_reads_with_the_library_of_kubernetes(tmp_path: Path) -> None:
    cases = [*MEANINGS, *ERRORS]
    (tmp_path / "templates").mkdir()
    (tmp_path / "files").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: oracle\nversion: 1.0.0\n")
    for number, text in enumerate(cases):
        (tmp_path / "files" / f"{number}.yaml").write_text(f"v: {text}\n")
    (tmp_path / "templates" / "all.yaml").write_text(
        f"{{{{- range $i := until {len(cases)} }}}}\n"
        '# {{ $.Files.Get (printf "files/%d.yaml" $i) | fromYaml | toJson }}\n{{- end }}\n'
    )
    command = [str(tools.find("helm")), "template", "oracle", str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"HOME": str(tmp_path)})
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("# {")]
    assert len(lines) == len(cases)
    for text, line in zip(cases, lines, strict=True):
        told = json.loads(line)
        assert ("Error" in told) if text in ERRORS else (told == {"v": MEANINGS[text]}), text


def test_documents_have_the_line_they_begin_at() -> None:
    text = "# first\n\na: 1\n---\n# second\nb: 2\n...\n---\n---\n# nothing\n---\n- 3\n"
    assert [tuple(document) for document in read_documents(text)] == [({"a": 1}, 3), ({"b": 2}, 6), ([3], 12)]


@pytest.mark.parametrize(
    "text",
    ["\ufeffa: 1\n", "a: 1\r\n", "%YAML 1.1\n---\na: 1\n", "--- {a: 1}\n", "--- # note\na: 1", '{"a": 1}', "a: 1\n..."],
)
def test_marks_that_editors_and_people_leave_do_no_harm(text: str) -> None:
    assert read(text) == [{"a": 1}]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n---\n", "~\n", "null"])
def test_nothing_is_nothing(text: str) -> None:
    assert read(text) == []


def test_json_documents_may_follow_each_other() -> None:
    documents = list(read_documents('{"a": 1.0}\n\n{"b":\n 2} [3]'))
    assert [tuple(document) for document in documents] == [({"a": 1}, 1), ({"b": 2}, 3), ([3], 4)]


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ('{"a": 1,\n "a": 2}', 2, "the same key for the second time"),
        ('{"a": NaN}', 1, None),
        ('{"a": 123456789012345678901}', 1, "a number of more than 64 bits; put it in quotes"),
        (
            "a:\n\tb: 1\n",
            2,
            "a character that is not allowed here; use spaces for indentation, and quotes around @ and `",
        ),
        ("a: b: c\n", 1, "a second colon in one value; put the value in quotes"),
        ("a: 1\n b: 2\n", 2, None),
        ('a: "open\n', 2, None),
        ("a: \x01\n", 1, None),
        ("a: !!int x\n", 1, "!!int before a value that is none"),
        ("a: {<<: 3}\n", 1, "<< takes a map or a list of maps"),
    ],
)
def test_errors_tell_the_line_and_the_cause(text: str, line: int, cause: str | None) -> None:
    if cause is None and "NaN" in text:
        assert read(text) == [{"a": "NaN"}]  # as YAML, which it then is
        return
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert (caught.value.line, cause or caught.value.cause) == (line, caught.value.cause)


@pytest.mark.parametrize(
    "text", ["password: *hunter2", "a: b\npassword: %hunter2", "password: &x hunter2: {", "- @hunter2"]
)
def test_no_message_quotes_the_text(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert "hunter2" not in str(caught.value)


BOMBS = {
    "aliases of aliases": "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 64)),
    "one long text, often": f"a: &a {'x' * 100_000}\nb: [" + "*a, " * 1000 + "1]\n",
    "deep lists": "a: " + "[" * 100_000,
    "deep maps": "a: " + "{a: " * 100_000,
    "deep blocks": "".join("  " * depth + "a:\n" for depth in range(300)),
    "deep JSON": '{"a":' * 500 + "1" + "}" * 500,
    "merges of merges": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}], b: *a{n - 1}, c: *a{n - 1}}}\n" for n in range(1, 40)),
    "a long number": "a: " + "9" * 1_000_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_what_explodes_is_refused_before_it_does(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert len(str(caught.value)) < 200


def test_an_anchor_that_is_used_a_few_times_is_no_bomb() -> None:
    (value,) = read("base: &base {a: 1, b: [x, y]}\nmany: [" + "*base, " * 500 + "]\n")
    assert len(value["many"]) == 500


def test_the_limits_are_far_from_honest_files() -> None:
    text = "".join("  " * depth + "a:\n" for depth in range(manifests.DEPTH_LIMIT - 2))
    assert len(read(text)) == 1


FIELDS = """\
# A comment.
kind: First
spec:
  a: 1
---
kind: Second
metadata: {name: web,
  labels: {a.b/c: d}}
base: &base
  port: 80
spec:
  ports:
    - name: a
      port: 80
    - <<: *base
      prot: TCP
  nothing:
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("spec", 11),
        ("spec.ports", 12),
        ("spec.ports[0]", 13),
        ("spec.ports[0].port", 14),
        ("spec.ports[1].prot", 16),
        ("spec.ports[1].port", 15),  # merged: where the item begins
        ("spec.ports[2]", 12),  # missing: where it would be
        ("spec.ports[name=a].port", 14),
        ("spec.ports[port=80,name=a].port", 14),
        ("spec.ports[prot=TCP].port", 15),
        ("spec.ports[name=other].port", 12),
        ("spec.ports[x,y].port", 12),
        ("spec.nothing.at.all", 17),
        ("metadata.labels[a.b/c]", 8),
        ("metadata.name", 7),
        ("specification", 0),
        ("", 0),
    ],
)
def test_a_field_has_a_line(path: str, line: int) -> None:
    assert field_lines(FIELDS, [(6, path)]) == [line]


def test_fields_are_looked_for_in_their_own_document() -> None:
    assert field_lines(FIELDS, [(2, "spec.a"), (6, "spec.a"), (3, "spec.a")]) == [4, 11, 0]


def test_fields_of_json_have_lines() -> None:
    assert field_lines('{\n"spec": {\n"ports": [\n{"port": "a"}]}}', [(1, "spec.ports[0].port")]) == [4]


@pytest.mark.parametrize("text", ["{{ kind }}: [", "a: *b", "a: 1\na: 1", "\x00"])
def test_no_line_is_known_of_what_cannot_be_read(text: str) -> None:
    assert field_lines(text, [(1, "a")]) == [0]
