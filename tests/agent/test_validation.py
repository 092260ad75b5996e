"""The validation webhook and the request of an application: asked at the right time, and no way to other services."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, until

from syncline.core.gateway_plan import HttpApply, PlannedApply, PlannedCheck

PROJECT = {"projects/line/project.json": '{"title": "Line"}'}
EDITED = {"projects/line/project.json": '{"title": "Edited"}'}


class Service:
    """An HTTP service that answers what a test wants, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status = 204
        self.headers: dict[str, str] = {}
        self.body = b""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, path: str = "/check") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                service.asked.append((self.command, self.path, dict(self.headers), content))
                self.send_response(service.status)
                for name, value in service.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(service.body)))
                self.end_headers()
                self.wfile.write(service.body)

            def log_message(self, *_: Any) -> None:
                return

        return Handler


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


def check(service: Service) -> dict[str, Any]:
    return {"check": PlannedCheck(webhook_url=service.url())}


def test_a_validation_webhook_is_asked_before_a_publish_and_its_no_keeps_the_last_good_tree(
    plain: AgentProcess, depot: PlanDepot, service: Service
) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT, **check(service)).id)
    question = json.loads(service.asked[0][3])
    assert (question["sync"], question["gateway"], question["added"]) == ("plant", "gw", list(PROJECT))
    service.status, service.body = 422, b"the title is taken"
    plan = depot.publish(EDITED, **check(service))
    report = plain.until_reason("ValidationFailed")
    assert report.state == "Error"
    assert "422: the title is taken" in report.message
    assert plain.files() == PROJECT
    service.status = 200
    plain.until_synced(plan.id)
    assert plain.files() == EDITED


def test_a_validation_webhook_that_redirects_leads_nowhere(
    plain: AgentProcess, depot: PlanDepot, service: Service
) -> None:
    service.status, service.headers = 307, {"Location": service.url("/elsewhere")}
    plain.start()
    depot.publish(PROJECT, **check(service))
    assert "answers 307" in plain.until_reason("ValidationFailed").message
    assert {path for _, path, _, _ in service.asked} == {"/check"}
    assert plain.files() == {}


METADATA = ("169.254.169.254", "2852039166", "[::ffff:169.254.169.254]")
LINK_LOCAL = ("169.254.20.10", "[fe80::1]")


def test_a_validation_webhook_cannot_be_a_metadata_service_or_another_link_local_address(
    plain: AgentProcess, depot: PlanDepot
) -> None:
    plain.start()
    causes = {**dict.fromkeys(METADATA, "metadata service"), **dict.fromkeys(LINK_LOCAL, "link-local")}
    for host, cause in {**causes, "0.0.0.0": "not the address of a server"}.items():
        plan = depot.publish(PROJECT, check=PlannedCheck(webhook_url=f"http://{host}/latest/meta-data"))
        report = plain.until_reported(lambda one, plan=plan: one.plan == plan.id and one.state == "Error")
        assert report.reason == "ValidationFailed"
        assert cause in report.message, host
    assert plain.files() == {}


def test_an_application_is_told_of_its_files_by_one_request_with_headers_from_secrets(
    plain: AgentProcess, depot: PlanDepot, service: Service
) -> None:
    (plain.folder / "secrets").mkdir()
    (plain.folder / "secrets/reload").write_text("fT6wq9Lz\n")
    plain.start("--secrets-dir", str(plain.folder / "secrets"))
    apply = {"apply": PlannedApply(http=HttpApply(service.port, path="/-/reload", headers={"X-Token": "reload"}))}
    plain.until_synced(depot.publish(PROJECT, **apply).id)
    (method, path, headers, _) = service.asked[0]
    assert (method, path, headers["X-Token"]) == ("POST", "/-/reload", "fT6wq9Lz")
    service.status = 500
    plan = depot.publish(EDITED, **apply)
    assert "answered 500" in plain.until_reason("ApplyFailed").message
    assert plain.files() == EDITED
    service.status = 200
    plain.until_synced(plan.id)
    asked = len(service.asked)
    plain.until_synced(depot.publish(EDITED, ref="renamed", **apply).id)
    assert len(service.asked) == asked
    assert "fT6wq9Lz" not in plain.log()


def test_the_request_of_an_application_goes_to_no_other_host_and_reads_no_other_file(
    plain: AgentProcess, depot: PlanDepot, service: Service
) -> None:
    plain.start("--secrets-dir", str(plain.folder))
    for options in (
        {"path": f"@127.0.0.1:{service.port}/"},
        {"headers": {"X-Token": "../../../etc/passwd"}},
        {"headers": {"X-Token": "/etc/passwd"}},
    ):
        plan = depot.publish({**PROJECT, "number": str(options)}, apply=PlannedApply(http=HttpApply(1, **options)))
        report = plain.until_reported(lambda one, plan=plan: one.plan == plan.id and one.reason == "ApplyFailed")
        assert report.state == "Error"
    until(lambda: not service.asked, plain.log)
