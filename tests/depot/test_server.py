"""What an agent gets from the depot, over TLS, from a real Git tree."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import msgspec
import pytest
from prometheus_client import REGISTRY
from tests.depot.conftest import BLUE, OTHER, RED, GitTree, Scene, parse, raw_connection, token_of

from syncline.core.gateway_plan import MAX_REPORT_BYTES, ChangeAnswer
from syncline.depot import bodies, sending, server
from syncline.depot.plans import DepotRefusal
from syncline.kube.errors import Unreachable

Until = Callable[[Callable[[], bool]], Awaitable[None]]


def counted(request: str, code: str) -> float:
    return REGISTRY.get_sample_value("syncline_depot_requests_total", {"request": request, "code": code}) or 0.0


def posted(path: str, length: int) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: depot\r\nAuthorization: Bearer {token_of(BLUE)}\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


async def test_a_pod_gets_its_plan_and_the_files_of_it(scene: Scene) -> None:
    agent = scene.agent()
    plan = (await agent.plan()).plan
    assert [file.path for file in plan.files] == ["empty", "large.bin", "projects/one/project.json"]
    answer = await agent.blobs(plan.id, *(file.blob for file in plan.files))
    assert answer.status == 200
    content = parse(answer.body)
    assert {file.path: content[file.blob] for file in plan.files} == {
        "empty": b"",
        "large.bin": bytes(range(256)) * 4096,
        "projects/one/project.json": b'{"title": "one"}',
    }
    assert scene.plans.closed == 1


async def test_a_pod_waits_for_the_next_plan(scene: Scene, until: Until) -> None:
    agent = scene.agent()
    have = (await agent.plan()).plan.id
    assert (await agent.plan(have, wait=0.01)).status == 304
    assert (await agent.plan(have)).status == 304
    waiting = asyncio.create_task(agent.plan(have, wait=60))
    seen = scene.plans.waits
    await until(lambda: scene.plans.waits > seen)
    await scene.plans.push({"blue/new.json": b"{}"})
    plan = (await waiting).plan
    assert plan.id != have
    assert "new.json" in {file.path for file in plan.files}


async def test_a_change_for_another_gateway_ends_no_wait_with_the_same_plan(scene: Scene) -> None:
    class Hasty:
        """Wakes everybody, whatever has changed."""

        async def wait(self, *_: object) -> bool:
            return True

    agent = scene.agent()
    have = (await agent.plan()).plan.id
    scene.plans.wait = Hasty().wait  # type: ignore[method-assign]
    assert (await agent.plan(have, wait=60)).status == 304


async def test_a_wait_is_limited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_WAIT", 0.05)
    agent = scene.agent()
    have = (await agent.plan()).plan.id
    assert (await agent.plan(have, wait=1e9)).status == 304


@pytest.mark.parametrize("wait", ["-1", "nan", "inf", "soon", ""])
async def test_a_wait_that_is_no_time_is_refused(scene: Scene, wait: str) -> None:
    assert (await scene.agent().ask("GET", f"/v1/plan?have=x&wait={wait}")).status == 400


async def test_a_pod_that_is_deleted_while_it_waits_gets_nothing(scene: Scene, until: Until) -> None:
    agent = scene.agent()
    have = (await agent.plan()).plan.id
    seen = scene.plans.waits
    waiting = asyncio.create_task(agent.plan(have, wait=60))
    await until(lambda: scene.plans.waits > seen)
    scene.depot._authentication._proven.clear()

    async def nobody(_: str) -> None:
        return None

    scene.depot._authentication._review = nobody
    await scene.plans.push({"blue/new.json": b"{}"})
    assert (await waiting).status == 401


async def test_an_agent_that_hangs_up_leaves_no_wait_behind(scene: Scene, until: Until) -> None:
    agent = scene.agent()
    have = (await agent.plan()).plan.id
    for _ in range(3 * server.MAX_REQUESTS):
        seen = scene.plans.waits
        waiting = asyncio.create_task(agent.plan(have, wait=60))
        await until(lambda seen=seen: scene.plans.waits > seen)  # type: ignore[misc]
        waiting.cancel()
        await until(lambda: not scene.depot._running)
    assert (await agent.plan()).status == 200


async def test_a_report_arrives_as_that_of_its_pod(scene: Scene) -> None:
    assert (await scene.agent(RED).report()).status == 204
    [(pod, report)] = scene.plans.reports
    assert (pod, report.state) == (RED, "Synced")


async def test_changes_are_streamed(scene: Scene) -> None:
    head = {"plan": "p", "commit": "c", "files": [{"path": "a", "size": 200_000}, {"path": "b", "size": 3}]}
    content = bytes(200_000) + b"abc"

    async def body() -> AsyncIterator[bytes]:
        yield json.dumps(head).encode() + b"\n"
        for start in range(0, len(content), 50_000):
            yield content[start : start + 50_000]

    answer = await scene.agent().ask("POST", "/v1/changes", body())
    assert msgspec.json.decode(answer.body, type=ChangeAnswer).branch == "edits"
    [(pod, request, received)] = scene.plans.changed
    assert (pod, len(request.files), received) == (BLUE, 2, content)


async def test_nobody_is_served_while_the_operator_starts(scene: Scene) -> None:
    scene.ready = False
    answer = await scene.agent().plan()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_a_pod_of_no_sync_is_refused_by_the_operator(scene: Scene) -> None:
    scene.plans.folders.clear()
    before = counted("plan", "404")
    answer = await scene.agent().plan()
    assert (answer.status, answer.body) == (404, b"this pod belongs to no sync\n")
    assert counted("plan", "404") == before + 1


async def test_an_error_of_the_api_server_is_worth_a_retry(scene: Scene) -> None:
    async def away(*_: object) -> None:
        raise Unreachable("no answer of the API server")

    scene.plans.report = away  # type: ignore[assignment]
    answer = await scene.agent().report()
    assert (answer.status, "Retry-After" in answer.headers) == (503, True)


async def test_a_defect_of_the_operator_is_not_shown_to_pods(scene: Scene) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("s3cret")

    scene.plans.report = broken  # type: ignore[assignment]
    answer = await scene.agent().report()
    assert answer.status == 500
    assert b"s3cret" not in answer.body


class TestStrangers:
    async def test_a_request_without_a_valid_token_gets_nothing(self, scene: Scene) -> None:
        for token in ("", "guess", token_of(BLUE, "forged"), token_of(BLUE, aud="other")):
            for method, path in (("GET", "/v1/plan"), ("POST", "/v1/blobs"), ("POST", "/v1/report")):
                answer = await scene.somebody(token).ask(method, path, b"{}" if method == "POST" else None)
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert scene.plans.composed == 0

    async def test_two_tokens_in_one_request_prove_nothing(self, scene: Scene) -> None:
        agent = scene.agent()
        url = f"https://{agent.address}/v1/plan"
        headers = [("Authorization", f"Bearer {token_of(BLUE)}"), ("Authorization", f"Bearer {token_of(RED)}")]
        async with scene.session.get(url, headers=headers) as response:
            assert response.status == 401

    async def test_a_body_is_not_read_before_the_pod_is_proven(self, scene: Scene) -> None:
        sent = b"POST /v1/report HTTP/1.1\r\nHost: depot\r\nContent-Length: 60000\r\n\r\n"
        async with raw_connection(scene.depot.address, sent) as reader:
            assert (await reader.readline()).split()[1] == b"401"

    async def test_there_is_nothing_at_other_paths(self, scene: Scene) -> None:
        for path in ("/", "/v1", "/v1/plan/", "/v1/plan/../report", "/metrics", "//v1/plan", "/v1/%70lan%00"):
            assert (await scene.agent().ask("GET", path)).status in {404, 405}
        assert (await scene.agent().ask("DELETE", "/v1/plan")).status == 405
        assert (await scene.agent().ask("HEAD", "/v1/plan")).status == 405


class TestOtherPods:
    async def test_a_pod_gets_no_file_of_another_pod(self, scene: Scene) -> None:
        theirs = (await scene.agent(RED).plan()).plan
        mine = (await scene.agent(BLUE).plan()).plan
        for plan in (mine.id, theirs.id):
            answer = await scene.agent(BLUE).blobs(plan, theirs.files[0].blob)
            assert answer.status in {404, 409}
            assert b"red" not in answer.body

    async def test_pods_of_one_name_in_two_namespaces_are_two_pods(self, scene: Scene) -> None:
        assert (await scene.agent(OTHER).plan()).plan.files != (await scene.agent(BLUE).plan()).plan.files

    @pytest.mark.parametrize(
        "ids",
        [
            [],
            ["../../etc/passwd"],
            ["HEAD"],
            ["--batch"],
            ["refs/heads/main"],
            ["0" * 39],
            ["A" * 40],
            ["0" * 40 + "\n" + "1" * 23],
            ["0" * 40 + ":path"],
            ["0" * 40] * 501,
        ],
    )
    async def test_an_id_that_is_no_hash_never_reaches_git(self, scene: Scene, ids: list[str]) -> None:
        plan = (await scene.agent().plan()).plan
        assert (await scene.agent().blobs(plan.id, *ids)).status == 400

    async def test_an_object_that_is_not_in_the_plan_is_not_served(self, scene: Scene, tree: GitTree) -> None:
        plan = (await scene.agent().plan()).plan
        for name in ("HEAD", "HEAD^{tree}", "HEAD:blue"):
            one = tree.git("rev-parse", name).decode().strip()
            assert (await scene.agent().blobs(plan.id, one)).status == 404

    async def test_a_blob_is_sent_once_however_often_it_is_named(self, scene: Scene) -> None:
        plan = (await scene.agent().plan()).plan
        answer = await scene.agent().blobs(plan.id, *[plan.files[2].blob] * 100)
        assert len(answer.body) < 200


class TestReports:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{}",
            b"[]",
            b"null",
            b"\xff\xfe",
            b'{"state": "Fine", "reason": "x"}',
            b'{"state": "Synced", "reason": 5}',
            b'{"state": "Synced", "reason": "' + b"x" * 65 + b'"}',
            b'{"state": "Synced", "reason": "x", "files": "many"}',
            b'{"state": "Synced", "reason": "x", "files": -1}',
            b'{"state": "Synced", "reason": "x", "files": 1' + b"0" * 400 + b"}",
            b'{"state": "Synced", "reason": "x", "changed": {"added": 18446744073709551615}}',
            b'{"state": "Synced", "reason": "x", "deletion": {"digest": "d", "files": 1, "of": 9223372036854775808}}',
            b'{"state": "Synced", "reason": "x", "edits": {"sent": 1' + b"0" * 30 + b"}}",
            b'{"state": "Synced", "reason": "x", "projects": [' + b'"p",' * 100 + b'"p"]}',
            b'{"state": "Synced", "reason": "x", "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
            b'{"state": "Synced", "reason": "x"} {}',
        ],
    )
    async def test_a_report_that_cannot_be_read_is_refused(self, scene: Scene, body: bytes) -> None:
        assert (await scene.agent().report(body)).status == 400
        assert not scene.plans.reports

    async def test_a_huge_report_is_refused(self, scene: Scene) -> None:
        body = b'{"state": "Synced", "reason": "x", "more": "' + b"y" * MAX_REPORT_BYTES + b'"}'
        assert (await scene.agent().report(body)).status == 413

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b" " * 50_000

        answer = await scene.agent().ask("POST", "/v1/report", endless())
        assert answer.status == 413

    async def test_a_report_is_not_decompressed(self, scene: Scene) -> None:
        answer = await scene.agent().ask("POST", "/v1/report", b"\x1f\x8b\x08", **{"Content-Encoding": "gzip"})
        assert answer.status == 400

    async def test_a_pod_cannot_report_more_than_its_rate(self, scene: Scene) -> None:
        codes = [(await scene.agent().report()).status for _ in range(server.REPORT_BURST + 5)]
        assert codes[-1] == 429
        assert (await scene.agent(RED).report()).status == 204


class TestChanges:
    async def refused(self, scene: Scene, head: object, content: bytes = b"") -> int:
        return (await scene.agent().ask("POST", "/v1/changes", json.dumps(head).encode() + b"\n" + content)).status

    async def test_sizes_that_do_not_fit_the_body_are_refused(self, scene: Scene) -> None:
        one = {"plan": "p", "commit": "c", "files": [{"path": "a", "size": 5}]}
        assert await self.refused(scene, one, b"1234") == 400
        assert await self.refused(scene, one, b"123456") == 400
        assert not scene.plans.changed

    async def test_too_much_is_refused_before_it_is_sent(self, scene: Scene) -> None:
        many = [{"path": f"f{number}", "size": 0} for number in range(bodies.MAX_CHANGED_FILES + 1)]
        large = [{"path": f"f{number}", "size": 64 * 1024 * 1024} for number in range(10)]
        for files, status in (
            (many, 413),
            (large, 413),
            ([{"path": "a", "size": 65 * 1024 * 1024}], 413),
            ([{"path": "a", "size": -1}], 413),
            ([{"path": "a", "size": 1, "deleted": True}], 400),
            ([], 400),
        ):
            assert await self.refused(scene, {"plan": "p", "commit": "c", "files": files}) == status
        assert not scene.plans.changed

    async def test_a_first_line_without_end_is_refused(self, scene: Scene) -> None:
        assert (await scene.agent().ask("POST", "/v1/changes", b"x" * 400_000)).status == 413
        assert (await scene.agent().ask("POST", "/v1/changes", b"{}")).status == 400

    async def test_a_refusal_of_the_operator_reaches_the_agent(self, scene: Scene) -> None:
        async def refuse(*_: object) -> None:
            raise DepotRefusal(422, "the path is not watched")

        scene.plans.changes = refuse  # type: ignore[assignment]
        assert await self.refused(scene, {"plan": "p", "commit": "c", "files": [{"path": "a"}]}) == 422


class TestSlowClients:
    async def test_a_body_that_arrives_too_slowly_is_refused(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bodies, "BODY_SECONDS", 0.1)
        monkeypatch.setattr(bodies, "CHUNK_SECONDS", 0.1)
        head = b'{"plan": "p", "commit": "c", "files": [{"path": "a", "size": 5}]}\n'
        for path, begun in (("/v1/report", b"{"), ("/v1/changes", b"{"), ("/v1/changes", head + b"123")):
            async with raw_connection(scene.depot.address, posted(path, 1000) + begun) as reader:
                assert (await reader.readline()).split()[1] == b"408"

    async def test_a_client_that_does_not_read_is_cut_off_and_frees_its_slot(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, until: Until
    ) -> None:
        monkeypatch.setattr(sending, "CHUNK_SECONDS", 0.1)
        await scene.plans.push({"blue/huge.bin": bytes(40 * 1024 * 1024)})
        plan = (await scene.agent().plan()).plan
        huge = next(file for file in plan.files if file.path == "huge.bin")
        body = msgspec.json.encode({"plan": plan.id, "ids": [huge.blob]})
        before = counted("blobs", "cut-off")
        async with raw_connection(scene.depot.address, posted("/v1/blobs", len(body)) + body):
            await until(lambda: counted("blobs", "cut-off") > before)
            assert scene.plans.closed == 1
            assert not scene.depot._running

    async def test_a_file_that_cannot_be_read_to_its_end_is_never_taken_for_complete(self, scene: Scene) -> None:
        plan = (await scene.agent().plan()).plan
        scene.plans.break_after = 65536
        large = next(file for file in plan.files if file.path == "large.bin")
        with pytest.raises(aiohttp.ClientError):
            await scene.agent().blobs(plan.id, large.blob)
        scene.plans.break_after = None
        assert (await scene.agent().blobs(plan.id, large.blob)).status == 200

    async def test_one_namespace_cannot_take_all_streams(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "SLOT_SECONDS", 0.1)
        holding = [scene.depot._blob_slots.slot("site") for _ in range(server.BLOB_SHARE)]
        for one in holding:
            await one.__aenter__()
        blue, other = (await scene.agent().plan()).plan, (await scene.agent(OTHER).plan()).plan
        assert (await scene.agent().blobs(blue.id, blue.files[0].blob)).status == 503
        assert (await scene.agent(OTHER).blobs(other.id, other.files[0].blob)).status == 200
        for one in holding:
            await one.__aexit__(None, None, None)
        assert (await scene.agent().blobs(blue.id, blue.files[0].blob)).status == 200

    async def test_one_pod_cannot_have_many_requests_at_once(self, scene: Scene, until: Until) -> None:
        agent = scene.agent()
        have = (await agent.plan()).plan.id
        waiting = [asyncio.create_task(agent.plan(have, wait=60)) for _ in range(server.MAX_REQUESTS)]
        await until(lambda: scene.plans.waits >= server.MAX_REQUESTS)
        assert (await agent.plan()).status == 429
        assert (await scene.agent(RED).plan()).status == 200
        await scene.plans.push({"blue/new.json": b"{}"})
        assert {one.status for one in await asyncio.gather(*waiting)} == {200}
