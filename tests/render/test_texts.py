"""Texts with variables, such as patches and names: what comes back, and what a wrong one says."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.render.children import pids

from syncline.render import transform_pool
from syncline.render.errors import RenderFailed, TransformError
from syncline.render.transform_pool import TransformPool, is_template
from syncline.render.transforms import TextTemplate
from syncline.render.workers import protocol
from syncline.render.workers.framing import LENGTH_BYTES, frame
from syncline.render.workers.pool import WorkerStopped
from syncline.render.workers.protocol import (
    TEXT,
    Done,
    JobRefused,
    Rendered,
    Repeated,
    TextJob,
    TransformJob,
    TransformSource,
    TransformTarget,
    decode_answer,
    decode_transform_job,
)
from syncline.render.workers.transform import work

SOURCE = TransformSource("team-a", "settings", "ConfigMap")
TARGET = TransformTarget("team-b", "settings-copy", "edge")
TARGETS = [TransformTarget(f"team-{number}", "settings", "edge" if number % 2 else "") for number in range(500)]
THERE_ARE = (
    "an undefined value; there are source.namespace, source.name, source.kind, target.namespace, target.name and "
    "target.cluster"
)


def render(template: str, source: TransformSource = SOURCE, target: TransformTarget | None = TARGET) -> str:
    return TextTemplate(template).render(source, target)


def refusal(template: str, source: TransformSource = SOURCE) -> TransformError:
    with pytest.raises(TransformError) as caught:
        render(template, source)
    return caught.value


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ source.namespace }}/{{ source.name }} {{ source.kind }}", "team-a/settings ConfigMap"),
        ("{{ target.cluster }}:{{ target.namespace }}/{{ target.name }}", "edge:team-b/settings-copy"),
        ("spec:\n  host: {{ target.namespace }}.example.com\n", "spec:\n  host: team-b.example.com\n"),
        ("{% if target.cluster == 'edge' %}a{% else %}b{% endif %}", "a"),
        ("{{ source.name|upper }}", "SETTINGS"),
        ("{{ source.name }}{# said to nobody #}", "settings"),
        ("{{ '<&>' }}", "<&>"),
        ("{{ other|default('none') }}", "none"),
    ],
)
def test_a_text_may_name_its_source_and_its_target(template: str, expected: str) -> None:
    assert render(template) == expected


def test_in_the_syncs_own_cluster_the_cluster_is_empty() -> None:
    assert render("[{{ target.cluster }}]", target=TransformTarget("team-b", "settings")) == "[]"


@pytest.mark.parametrize(
    ("template", "cause", "line"),
    [
        ("\n{{ value }}", THERE_ARE, 2),
        ("{{ key }}", THERE_ARE, 1),
        ("{{ target.labels }}", THERE_ARE, 1),
        ("{{ source.uid }}", THERE_ARE, 1),
        ("a:\n  {{ target.name", "unexpected end of input", 2),
        ("{{ target.name|shout }}", "filter shout is unknown", 1),
        ("{% include 'x' %}", "include, import and extends are not available", 1),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps", 1),
        ("{{ target.name * 100000 }}", "the result is larger than 1 MiB", None),
        ("{{ target.__class__ }}", "undefined", 1),
    ],
)
def test_a_wrong_text_says_where_and_why(template: str, cause: str, line: int | None) -> None:
    error = refusal(template)
    assert cause in error.cause
    assert (error.index, error.key, error.line) == (None, "", line)
    assert str(error) == (f"line {line} of the template: {error.cause}" if line else error.cause)


def test_a_kind_that_is_not_given_is_not_there() -> None:
    assert "an undefined value" in refusal("{{ source.kind }}", TransformSource("team-a", "settings")).cause


@settings(deadline=None)
@given(name=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_is_never_itself_a_template(name: str) -> None:
    assert (
        render("{{ target.name }}", target=TransformTarget("", name + "{{ source.name }}"))
        == name + "{{ source.name }}"
    )


async def test_each_target_gets_its_own_text(renderer: TransformPool) -> None:
    texts = await renderer.texts("{{ target.cluster }}:{{ target.namespace }} of {{ source.kind }}", SOURCE, TARGETS)
    assert texts == [f"{target.cluster}:{target.namespace} of ConfigMap" for target in TARGETS]


async def test_a_text_that_does_not_name_the_target_is_rendered_once(renderer: TransformPool) -> None:
    texts = await renderer.texts("{{ source.name }}", SOURCE, TARGETS)
    assert texts == ["settings"] * len(TARGETS)
    assert all(text is texts[0] for text in texts)


@pytest.mark.parametrize(
    "text", ["", "plain", "{spec: {replicas: 2}}", '{"a": {"b": [{}]}}', "100%}", "# {{".replace("{{", "{ {")]
)
async def test_a_text_that_is_no_template_needs_no_child(renderer: TransformPool, text: str) -> None:
    assert not is_template(text)
    assert await renderer.texts(text, SOURCE, TARGETS[:3]) == [text] * 3
    assert pids(renderer) == []


@pytest.mark.parametrize("text", ["{{ x }}", "{% if x %}{% endif %}", "a {# b #}"])
def test_a_text_with_marks_is_a_template(text: str) -> None:
    assert is_template(text)


async def test_without_targets_nothing_is_rendered(renderer: TransformPool) -> None:
    assert await renderer.texts("{{ target.name }}", SOURCE, []) == []


async def test_a_text_wrong_for_all_is_raised(renderer: TransformPool) -> None:
    with pytest.raises(TransformError, match="line 1 of the template: an undefined value"):
        await renderer.texts("{{ source.nothing }}", SOURCE, TARGETS)
    with pytest.raises(TransformError, match="unexpected end of input"):
        await renderer.texts("{{ target.name", SOURCE, TARGETS)


async def test_a_text_wrong_for_one_target_names_it_and_leaves_the_others_alone(renderer: TransformPool) -> None:
    template = "{% if target.namespace == 'team-3' %}{{ no }}{% endif %}{{ target.namespace }}"
    texts = await renderer.texts(template, SOURCE, TARGETS)
    (wrong,) = (text for text in texts if isinstance(text, TransformError))
    assert texts.index(wrong) == 3
    assert str(wrong) == f"line 1 of the template, for edge: team-3/settings: {THERE_ARE}"
    assert [text for text in texts if text is not wrong] == [t.namespace for t in TARGETS if t.namespace != "team-3"]


async def test_texts_and_transforms_share_their_children(renderer: TransformPool) -> None:
    await renderer.texts("{{ source.name }}", SOURCE, TARGETS[:1])
    first = pids(renderer)
    await renderer.texts("{{ target.name }}", SOURCE, TARGETS[:1])
    assert pids(renderer) == first


async def test_a_hostile_text_is_stopped_and_left_alone_for_a_while() -> None:
    doubling = "{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}"
    async with TransformPool(deadline=5.0) as renderer:
        with pytest.raises(RenderFailed, match="the templates took more than 96 MiB of memory") as first:
            await renderer.texts(doubling, SOURCE, TARGETS[:1])
        with pytest.raises(RenderFailed) as second:
            await renderer.texts(doubling, SOURCE, TARGETS[:1])
        assert str(first.value) == str(second.value)
        assert 0 < second.value.retry_after <= first.value.retry_after
        assert await renderer.texts("{{ target.namespace }}", SOURCE, TARGETS[:1]) == ["team-0"]


async def test_texts_that_would_fill_the_operators_memory_are_refused(renderer: TransformPool) -> None:
    template = "{{ target.namespace }}" + "x" * 300_000
    with pytest.raises(RenderFailed, match="gave more than 64 MiB for 500 targets"):
        await renderer.texts(template, SOURCE, TARGETS)


@pytest.mark.parametrize(
    "job", [TextJob("{{ target.name }}", SOURCE, TARGETS[:2]), TransformJob([], {"a": "1"}, {}, SOURCE, TARGETS[:2])]
)
def test_a_job_arrives_as_it_was_sent(job: protocol.TargetsJob) -> None:
    sent = frame(job)
    assert int.from_bytes(sent[:LENGTH_BYTES], "big") == len(sent) - LENGTH_BYTES
    assert decode_transform_job(sent[LENGTH_BYTES:]) == job


@pytest.mark.parametrize(
    "answer", [Rendered({TEXT: "x"}), Repeated(), JobRefused(None, "", "why", 3), Done(shared=True)]
)
def test_an_answer_arrives_as_it_was_sent(answer: protocol.Answer) -> None:
    assert decode_answer(frame(answer)[LENGTH_BYTES:]) == answer


def test_a_child_says_one_answer_a_target_and_what_repeats_only_once() -> None:
    same = [TransformTarget("a", "x"), TransformTarget("b", "x"), TransformTarget("c", "y")]
    said = list(work(TextJob("{{ target.name }}", SOURCE, same)))
    assert said == [Rendered({TEXT: "x"}), Repeated(), Rendered({TEXT: "y"}), Done(shared=False)]
    assert list(work(TextJob("{{ source.name }}", SOURCE, same))) == [Rendered({TEXT: "settings"}), Done(shared=True)]


def test_a_child_that_answers_a_text_with_something_else_is_not_believed() -> None:
    results = transform_pool._Results(TextJob("{{ target.name }}", SOURCE, TARGETS[:1]))
    with pytest.raises(WorkerStopped, match="broke the protocol"):
        results.add([Rendered({"another": "x"}), Done(shared=False)])


def test_work_is_named_by_its_template_and_source_not_by_its_targets() -> None:
    job = TextJob("{{ target.name }}", SOURCE, TARGETS[:2])
    assert job.digest() == msgspec.structs.replace(job, targets=[]).digest()
    assert job.digest() != msgspec.structs.replace(job, template="{{ target.namespace }}").digest()
    assert job.digest() != msgspec.structs.replace(job, source=TransformSource("team-a", "other")).digest()
