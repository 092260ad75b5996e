"""Deliveries as Git hosts send them, over real connections."""

import asyncio
import contextlib
import gzip
import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from structlog.testing import capture_logs
from tests.receiver.conftest import GLOBAL, OWN, PUSH, Scene, counted, signed

from syncline.core.pushes import Push
from syncline.kube.errors import Unreachable
from syncline.receiver import OutdatedRequestError, Receiver, RequestRefusedError, server
from syncline.telemetry import BindError, http


class TestAccepted:
    async def test_a_push_is_passed_on(self, scene: Scene) -> None:
        before = counted("accepted")
        answer = await scene.send()
        assert (answer.status, answer.text) == (202, "accepted\n")
        assert scene.pushes == [("team", "web", Push(host="Generic", refs=("refs/heads/main",)))]
        assert counted("accepted") == before + 1

    @pytest.mark.parametrize("sync", ["team/web", "team/plain"])
    async def test_the_global_secret_speaks_for_every_sync(self, scene: Scene, sync: str) -> None:
        assert (await scene.send(sync=sync, key=GLOBAL)).status == 202

    async def test_while_a_secret_is_rotated_both_are_taken(self, scene: Scene) -> None:
        scene.known["team", "web"] = (b"new", OWN)
        assert [(await scene.send(key=key)).status for key in (OWN, b"new", b"older")] == [202, 202, 401]

    async def test_a_secret_that_changes_counts_at_once(self, scene: Scene) -> None:
        scene.known["team", "web"] = (b"new",)
        assert (await scene.send()).status == 401
        assert (await scene.send(key=b"new")).status == 202

    @pytest.mark.parametrize(
        ("headers", "host"),
        [
            ({"X-GitHub-Event": "push"} | signed(PUSH, OWN), "GitHub"),
            ({"X-Gitea-Event": "push"} | signed(PUSH, OWN, "X-Gitea-Signature", ""), "Gitea"),
            ({"X-Forgejo-Event": "push"} | signed(PUSH, OWN, "X-Forgejo-Signature", ""), "Forgejo"),
            ({"X-Gogs-Event": "push"} | signed(PUSH, OWN, "X-Gogs-Signature", ""), "Gogs"),
            ({"Authorization": f"Bearer {OWN.decode()}"}, "Generic"),
            (signed(PUSH, OWN, "X-Signature"), "Generic"),
        ],
    )
    async def test_each_host_proves_itself_in_its_own_way(
        self, scene: Scene, headers: dict[str, str], host: str
    ) -> None:
        assert (await scene.send(key=None, **headers)).status == 202
        assert [push.host for _, _, push in scene.pushes] == [host]

    async def test_gitlab_shows_a_token(self, scene: Scene) -> None:
        body = json.dumps({"object_kind": "push", "ref": "refs/heads/main"}).encode()
        headers = {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": OWN.decode()}
        assert (await scene.send(body, key=None, **headers)).status == 202
        assert (await scene.send(body, key=None, **(headers | {"X-Gitlab-Token": "guess"}))).status == 401

    async def test_bitbucket_signs_in_another_header(self, scene: Scene) -> None:
        body = json.dumps({"push": {"changes": [{"new": {"type": "branch", "name": "main"}}]}}).encode()
        headers = {"X-Event-Key": "repo:push"} | signed(body, OWN, "X-Hub-Signature")
        assert (await scene.send(body, key=None, **headers)).status == 202
        assert scene.pushes[0][2].refs == ("refs/heads/main",)

    async def test_a_delivery_that_comes_again_is_ignored(self, scene: Scene) -> None:
        before = counted("duplicate")
        answers = [await scene.send(X_GitHub_Event="push", X_GitHub_Delivery="d-1") for _ in range(3)]
        assert [answer.status for answer in answers] == [202, 202, 202]
        assert len(scene.pushes) == 1
        assert counted("duplicate") == before + 2

    async def test_the_same_delivery_for_another_sync_is_another(self, scene: Scene) -> None:
        for sync in ("team/web", "team/plain"):
            await scene.send(sync=sync, key=GLOBAL, X_GitHub_Event="push", X_GitHub_Delivery="d-1")
        assert len(scene.pushes) == 2

    async def test_messages_without_an_id_are_all_passed_on(self, scene: Scene) -> None:
        for _ in range(2):
            await scene.send()
        assert len(scene.pushes) == 2

    async def test_a_ping_is_answered_and_wakes_nobody(self, scene: Scene) -> None:
        answer = await scene.send(b'{"zen": "..."}', X_GitHub_Event="ping")
        assert (answer.status, answer.text, scene.pushes) == (202, "pong\n", [])

    async def test_an_event_that_is_no_push_is_no_fault(self, scene: Scene) -> None:
        answer = await scene.send(b"{}", X_GitHub_Event="issues")
        assert (answer.status, scene.pushes) == (202, [])
        assert answer.text == "not a push: GitHub may send pushes only\n"

    @pytest.mark.parametrize("failure", [RuntimeError("canary"), TimeoutError(), Unreachable("canary")])
    async def test_a_push_that_could_not_be_passed_on_may_come_again(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, failure: Exception
    ) -> None:
        async def broken(*_: object) -> None:
            raise failure

        keep = scene.receiver._on_push
        monkeypatch.setattr(scene.receiver, "_on_push", broken)
        answer = await scene.send(X_GitHub_Event="push", X_GitHub_Delivery="d-1")
        assert (answer.status, answer.text) == (503, "the push could not be forwarded: send it again\n")
        monkeypatch.setattr(scene.receiver, "_on_push", keep)
        await scene.send(X_GitHub_Event="push", X_GitHub_Delivery="d-1")
        assert len(scene.pushes) == 1

    async def test_a_push_that_is_not_passed_on_in_time_may_come_again(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def endless(*_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(server, "PASS_SECONDS", 0.05)
        monkeypatch.setattr(scene.receiver, "_on_push", endless)
        assert (await scene.send(X_GitHub_Event="push", X_GitHub_Delivery="d-1")).status == 503


class TestKinds:
    """Syncs of two kinds with the same name."""

    async def test_the_global_secret_reaches_both(self, scene: Scene) -> None:
        scene.other["team", "web"] = (b"another secret",)
        assert (await scene.send(key=GLOBAL)).status == 202
        assert scene.told == [{"ConfigSync", "IgnitionSync"}]

    async def test_the_secret_of_one_reaches_only_that_one(self, scene: Scene) -> None:
        scene.other["team", "web"] = (b"another secret",)
        await scene.send(key=OWN)
        await scene.send(key=b"another secret")
        assert scene.told == [{"ConfigSync"}, {"IgnitionSync"}]

    async def test_the_same_delivery_reaches_the_other_one_with_its_own_secret(self, scene: Scene) -> None:
        scene.other["team", "web"] = (b"another secret",)
        for key in (OWN, b"another secret", OWN):
            await scene.send(key=key, X_GitHub_Event="push", X_GitHub_Delivery="d-1")
        assert scene.told == [{"ConfigSync"}, {"IgnitionSync"}]

    async def test_a_request_that_the_sync_does_not_allow_is_refused(self, scene: Scene) -> None:
        before = counted("not_allowed")

        async def refuse(*_: object) -> None:
            raise RequestRefusedError("webhook.allowedRefs does not have the ref")

        scene.receiver._on_push = refuse
        answer = await scene.send()
        assert (answer.status, answer.text) == (403, "webhook.allowedRefs does not have the ref\n")
        assert counted("not_allowed") == before + 1

    async def test_a_request_that_is_older_than_the_last_one_is_told_so_and_is_no_error(self, scene: Scene) -> None:
        before = counted("duplicate")

        async def ignore(*_: object) -> None:
            raise OutdatedRequestError("not newer than the last event: ignored")

        scene.receiver._on_push = ignore
        answer = await scene.send(X_GitHub_Event="push", X_GitHub_Delivery="d-1")
        assert (answer.status, answer.text) == (202, "not newer than the last event: ignored\n")
        assert counted("duplicate") == before + 1


class TestRefused:
    @pytest.mark.parametrize("sync", ["team/web", "team/plain", "nowhere/web"])
    @pytest.mark.parametrize("key", [OWN, GLOBAL, b"a guess", None])
    async def test_until_the_secrets_are_known_every_sender_is_asked_to_come_again(
        self, scene: Scene, sync: str, key: bytes | None
    ) -> None:
        scene.ready = False
        before = counted("not_ready")
        answer = await scene.send(sync=sync, key=key)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert counted("not_ready") == before + 1
        assert scene.pushes == []
        scene.ready = True
        assert (await scene.send()).status == 202

    @pytest.mark.parametrize("sync", ["team/web", "team/plain", "team/nobody", "nowhere/web"])
    @pytest.mark.parametrize(
        ("key", "headers"),
        [
            (None, {}),
            (b"a guess", {}),
            (b"", {}),
            (None, {"Authorization": "Bearer guess"}),
            (None, {"X-Hub-Signature-256": "sha256="}),
        ],
    )
    async def test_without_proof_every_name_is_answered_alike(
        self, scene: Scene, sync: str, key: bytes | None, headers: dict[str, str]
    ) -> None:
        answer = await scene.send(sync=sync, key=key, **headers)
        assert answer.status == 401
        assert answer.text == "no valid signature or token: check the secret of the webhook\n"
        assert scene.pushes == []

    async def test_a_name_that_is_not_there_is_checked_by_the_same_code(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared: list[int] = []
        real = server.is_authentic

        def fits(headers: object, body: bytes, keys: tuple[bytes, ...]) -> bool:
            compared.append(len(body))
            return real(headers, body, keys)  # type: ignore[arg-type]

        monkeypatch.setattr(server, "is_authentic", fits)
        paths = []
        for sync in ("team/web", "team/plain", "team/nobody"):
            compared.clear()
            await scene.send(sync=sync, key=b"a guess")
            paths.append([*compared])
        assert paths == [[len(PUSH)] * 3] * 3  # the secrets of two kinds, and the global one

    async def test_only_who_knows_the_global_secret_learns_that_a_name_is_not_there(self, scene: Scene) -> None:
        answer = await scene.send(sync="team/nobody", key=GLOBAL)
        assert (answer.status, answer.text) == (404, "there is no sync team/nobody\n")
        assert (await scene.send(sync="team/nobody", key=OWN)).status == 401

    async def test_the_secret_of_one_sync_does_not_speak_for_another(self, scene: Scene) -> None:
        scene.known["team", "other"] = (b"another secret",)
        assert (await scene.send(sync="team/other", key=OWN)).status == 401

    async def test_without_a_global_secret_a_sync_without_its_own_is_closed(self, scene: Scene) -> None:
        await scene.receiver.stop()
        scene.receiver = scene.make(None)
        await scene.receiver.start()
        assert (await scene.send(sync="team/plain", key=GLOBAL)).status == 401
        assert (await scene.send(sync="team/plain", key=b"")).status == 401
        assert (await scene.send()).status == 202

    async def test_a_signature_of_another_body_is_refused(self, scene: Scene) -> None:
        assert (await scene.send(PUSH + b" ", key=None, **signed(PUSH, OWN))).status == 401

    async def test_nothing_is_parsed_before_it_is_proven(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "read_push", None)
        assert (await scene.send(key=b"a guess")).status == 401

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 5000, b"\xff", b'{"hello": "world"}'], ids=str)
    async def test_a_message_that_nobody_knows_is_told_so(self, scene: Scene, body: bytes) -> None:
        before = counted("malformed")
        assert (await scene.send(body)).status == 400
        assert counted("malformed") == before + 1

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
    async def test_only_post_is_taken(self, scene: Scene, method: str) -> None:
        assert (await scene.send(method=method)).status == 405

    @pytest.mark.parametrize("path", ["", "team", "team/web/more", "../healthz"])
    async def test_other_paths_are_not_there(self, scene: Scene, path: str) -> None:
        assert (await scene.send(sync=path)).status in (404, 405)

    async def test_a_compressed_body_is_refused_unopened(self, scene: Scene) -> None:
        body = gzip.compress(b"x" * 1_000_000)
        answer = await scene.send(body, Content_Encoding="gzip")
        assert (answer.status, answer.text) == (400, "the body is compressed: send it uncompressed\n")

    async def test_nothing_secret_is_logged_or_answered(self, scene: Scene) -> None:
        body = b'{"ref": "payload-canary"}'
        with capture_logs() as logs:
            answers = [
                await scene.send(body, X_Delivery_Id="d"),
                await scene.send(body, key=b"a guess"),
                await scene.send(body, key=None, Authorization="Bearer token-canary"),
                await scene.send(b'{"payload-canary', Authorization="Bearer token-canary"),
            ]
        assert [answer.status for answer in answers] == [202, 401, 401, 400]
        told = str(logs) + str(answers)
        assert logs == [
            {
                "event": "push webhook received",
                "sync": "team/web",
                "host": "Generic",
                "kind": "Push",
                "log_level": "info",
            }
        ]
        assert not [secret for secret in ("canary", OWN.decode(), GLOBAL.decode()) if secret in told]


class TestLimits:
    async def test_one_mebibyte_is_taken_and_one_byte_more_is_not(self, scene: Scene) -> None:
        body = b'{"ref": "main", "pad": "' + b"x" * (1024 * 1024 - 26) + b'"}'
        assert len(body) == 1024 * 1024
        assert (await scene.send(body)).status == 202
        before = counted("too_large")
        answer = await scene.send(body + b" ")
        assert (answer.status, answer.text) == (413, "the body is larger than 1 MiB\n")
        assert counted("too_large") == before + 1

    async def test_a_body_of_unknown_length_is_cut_off_too(self, scene: Scene) -> None:
        async def endless() -> AsyncIterator[bytes]:
            for _ in range(32):
                yield b"x" * 65536

        async with scene.session.post(scene.url(), data=endless()) as response:
            assert response.status == 413

    async def test_who_announces_too_much_is_answered_before_anything_is_sent(self, scene: Scene) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.receiver.port)
        head = "POST /webhook/team/web HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n"
        writer.write(head.format(10**12).encode())
        async with asyncio.timeout(180):
            assert (await reader.read()).startswith(b"HTTP/1.1 413 ")
        writer.close()

    async def test_who_asks_first_may_send(self, scene: Scene) -> None:
        async with scene.session.post(scene.url(), data=PUSH, headers=signed(PUSH, OWN), expect100=True) as response:
            assert response.status == 202

    async def test_a_body_that_trickles_is_given_up(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "BODY_SECONDS", 0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.receiver.port)
        writer.write(b"POST /webhook/team/web HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(180):
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()

    async def test_headers_that_trickle_are_given_up(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http, "FIRST_REQUEST_SECONDS", 0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.receiver.port)
        writer.write(b"POST /webhook/team/web HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        async with asyncio.timeout(180):
            assert await reader.read() == b""
        writer.close()
        assert (await scene.send()).status == 202

    async def test_a_body_in_broken_chunks_is_refused(self, scene: Scene) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.receiver.port)
        writer.write(
            b"POST /webhook/team/web HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n"
        )
        async with asyncio.timeout(180):
            assert (await reader.readline()).split()[1] == b"400"
        writer.close()
        assert (await scene.send()).status == 202

    async def test_a_sender_that_hangs_up_harms_nobody(self, scene: Scene) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", scene.receiver.port)
        writer.write(b"POST /webhook/team/web HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()
        assert (await scene.send()).status == 202

    async def test_connections_are_not_kept(self, scene: Scene) -> None:
        assert (await scene.send()).headers["Connection"] == "close"

    async def test_too_many_connections_are_refused(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http, "CONNECTIONS", 0)
        with pytest.raises(aiohttp.ClientError):
            await scene.send()

    async def test_an_address_that_asks_too_often_waits(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "SOURCE_BURST", 2)
        monkeypatch.setattr(server, "SOURCE_RATE", 0.1)
        await restart(scene)
        answers = [await scene.send(key=b"a guess") for _ in range(3)]
        assert [answer.status for answer in answers] == [401, 401, 429]
        assert 1 <= int(answers[2].headers["Retry-After"]) <= 10
        assert answers[2].text == "too many requests from this address\n"

    async def test_what_is_proven_does_not_count_for_its_address(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "SOURCE_BURST", 1)
        monkeypatch.setattr(server, "SOURCE_RATE", 0.001)
        await restart(scene)
        assert [(await scene.send()).status for _ in range(3)] == [202, 202, 202]
        assert [(await scene.send(key=b"a guess")).status for _ in range(2)] == [401, 429]

    async def test_who_hammers_one_sync_leaves_the_others_behind_the_same_address_alone(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "PAIR_BURST", 2)
        monkeypatch.setattr(server, "PAIR_RATE", 0.001)
        await restart(scene)
        guesses = [await scene.send(key=b"a guess", sync="team/plain") for _ in range(6)]
        assert [guess.status for guess in guesses] == [401, 401, 429, 429, 429, 429]
        assert guesses[-1].text == "too many requests for this sync from this address\n"
        assert (await scene.send()).status == 202

    async def test_one_sender_behind_an_ingress_cannot_use_up_what_the_others_have(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "SOURCE_BURST", 2)
        monkeypatch.setattr(server, "SOURCE_RATE", 0.001)
        await restart(scene, "127.0.0.1")
        flood = [await scene.send(key=b"a guess", X_Forwarded_For="203.0.113.9") for _ in range(4)]
        assert [answer.status for answer in flood] == [401, 401, 429, 429]
        forged = await scene.send(key=b"a guess", X_Forwarded_For="198.51.100.1, 203.0.113.9")
        assert forged.status == 429, "what stands further left is the sender's own word"
        assert (await scene.send(X_Forwarded_For="198.51.100.1")).status == 202
        assert (await scene.send(key=b"a guess", X_Forwarded_For="198.51.100.1")).status == 401

    async def test_who_is_no_trusted_proxy_cannot_say_that_it_is_somebody_else(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "SOURCE_BURST", 2)
        monkeypatch.setattr(server, "SOURCE_RATE", 0.001)
        await restart(scene, "192.0.2.0/24")
        answers = [await scene.send(key=b"a guess", X_Forwarded_For=f"203.0.113.{number}") for number in range(3)]
        assert [answer.status for answer in answers] == [401, 401, 429]

    async def test_a_flood_of_addresses_and_names_takes_no_more_room_than_there_is(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "REMEMBERED", 5)
        await restart(scene, "127.0.0.1")
        for number in range(20):
            await scene.send(key=None, sync=f"team/{'x' * 200}{number}", X_Forwarded_For=f"203.0.113.{number}")
        assert len(scene.receiver._sources) == len(scene.receiver._pairs) == 5
        assert (await scene.send(X_Forwarded_For="203.0.113.1")).status == 202

    async def test_an_ingress_may_have_more_connections_than_anybody_else(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "PER_ADDRESS", 0)
        with pytest.raises(aiohttp.ClientError):
            await scene.send()
        await restart(scene, "127.0.0.1")
        assert (await scene.send()).status == 202

    async def test_a_sync_that_is_told_too_often_waits_and_others_do_not(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "SYNC_BURST", 1)
        monkeypatch.setattr(server, "SYNC_RATE", 0.1)
        await restart(scene)
        # Who proves nothing cannot use up what is the sync's.
        assert [(await scene.send(key=b"a guess")).status for _ in range(3)] == [401, 401, 401]
        answers = [await scene.send(key=GLOBAL) for _ in range(2)]
        assert [answer.status for answer in answers] == [202, 429]
        assert int(answers[1].headers["Retry-After"]) >= 1
        assert (await scene.send(sync="team/plain", key=GLOBAL)).status == 202

    async def test_all_bodies_together_are_bounded_and_let_go(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "HELD_LIMIT", 1000)
        monkeypatch.setattr(server, "SMALL", 0)
        await restart(scene)
        assert (await scene.send(b"x" * 1001)).status == 429
        assert [(await scene.send(b'{"ref": "' + b"m" * 900 + b'"}')).status for _ in range(3)] == [202, 202, 202]

    async def test_one_sender_with_large_bodies_that_never_end_keeps_nobody_from_being_heard(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "BODY_SECONDS", 120.0)
        await restart(scene, "127.0.0.1")
        async with contextlib.AsyncExitStack() as held:
            floods = [await held.enter_async_context(unfinished(scene.receiver.port, "203.0.113.9")) for _ in range(40)]
            # Those that are refused show that the others hold all that there is for them.
            for number, answer in enumerate(asyncio.as_completed(floods), start=1):
                assert b" 429 " in await answer
                if number == 8:
                    break
            assert (await scene.send(X_Forwarded_For="203.0.113.1")).status == 202
            large = b'{"ref": "' + b"m" * (server.BODY_LIMIT - 100) + b'"}'
            assert (await scene.send(large, X_Forwarded_For="203.0.113.1")).status == 202
            # A small delivery of the same sender is heard too: it may be an ingress.
            assert (await scene.send(X_Forwarded_For="203.0.113.9")).status == 202


@contextlib.asynccontextmanager
async def unfinished(port: int, sender: str) -> AsyncIterator["asyncio.Task[bytes]"]:
    """Send a large body but its last byte, and wait for an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /webhook/team/web HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {sender}\r\n"
    writer.write(f"{head}Content-Length: {server.BODY_LIMIT}\r\n\r\n".encode() + b"x" * (server.BODY_LIMIT - 1))
    answer = asyncio.create_task(reader.readline())
    try:
        yield answer
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        writer.transport.abort()


async def nobody(*_: object) -> None:
    """Take a push."""


class TestListening:
    async def test_a_receiver_that_is_off_listens_nowhere(self) -> None:
        receiver = Receiver("0", kinds=(), global_secret=None, secrets=lambda *_: {}, on_push=nobody)
        await receiver.start()
        assert (receiver.address, receiver.port) == ("", 0)
        await receiver.stop()

    async def test_the_address_has_the_host_and_the_port(self, scene: Scene) -> None:
        assert scene.receiver.address == f"127.0.0.1:{scene.receiver.port}"

    async def test_a_port_in_use_says_which_flag_to_change(self, scene: Scene) -> None:
        other = Receiver(
            f"127.0.0.1:{scene.receiver.port}", kinds=(), global_secret=None, secrets=lambda *_: {}, on_push=nobody
        )
        with pytest.raises(BindError, match="choose another port with --webhook-bind"):
            await other.start()

    async def test_after_stopping_nobody_listens(self, scene: Scene) -> None:
        port = scene.receiver.port
        await scene.receiver.stop()
        await scene.receiver.stop()
        assert scene.receiver.port == 0
        with socket.create_server(("127.0.0.1", port)):
            pass


async def restart(scene: Scene, *trusted_proxies: str) -> None:
    """Start anew, with limits as they are now."""
    await scene.receiver.stop()
    scene.receiver = scene.make(GLOBAL, *trusted_proxies)
    await scene.receiver.start()
