"""The webhook configuration: what is shipped, and what the operator changes of it."""

import copy
from typing import Any

import pytest

from syncline.core.webhook_configuration import (
    AdmissionUrlError,
    check_url,
    repair,
    service_client,
    url_client,
    webhook_configuration,
)

Json = dict[str, Any]
CLIENT = service_client("syncline-system", "token", "PEM")


def live(client: Json, **more: Any) -> Json:
    """The configuration as an API server has it."""
    made = copy.deepcopy(webhook_configuration("syncline-system", client))
    made["metadata"]["resourceVersion"] = "7"
    made["webhooks"][0].update(more)
    return made


def test_a_pod_that_asks_for_nothing_never_depends_on_the_operator() -> None:
    [webhook] = webhook_configuration("syncline-system", CLIENT)["webhooks"]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["timeoutSeconds"] == 5
    assert webhook["rules"][0]["operations"] == ["CREATE"]
    assert "ignition-sync.io/inject" in webhook["matchConditions"][0]["expression"]
    assert "syncline-system" in webhook["namespaceSelector"]["matchExpressions"][0]["values"]


def test_a_configuration_that_is_right_is_left_alone() -> None:
    assert repair(live(CLIENT), "syncline-system", CLIENT) == []
    assert repair(live(CLIENT, failurePolicy="Fail", timeoutSeconds=1), "syncline-system", CLIENT) == []


@pytest.mark.parametrize(
    "found",
    [
        service_client("syncline-system"),
        service_client("syncline-system", "token"),
        service_client("syncline-system", "token", "OTHER"),
        service_client("syncline-system", "other", "PEM"),
        service_client("elsewhere", "token", "PEM"),
        url_client("https://elsewhere", "token", "PEM"),
        {},
    ],
)
def test_only_the_client_of_our_webhook_is_written(found: Json) -> None:
    configuration = live(found)
    configuration["webhooks"].insert(0, {"name": "other.example.com", "clientConfig": {"url": "https://other"}})
    assert repair(configuration, "syncline-system", CLIENT) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/webhooks/1/clientConfig", "value": CLIENT},
    ]


def test_certificates_that_another_program_writes_stay() -> None:
    without = service_client("syncline-system", "token")
    assert repair(live(CLIENT), "syncline-system", without) == []
    [_, change] = repair(live(service_client("syncline-system", "old", "PEM")), "syncline-system", without)
    assert change["value"] == CLIENT


def test_a_webhook_that_is_gone_is_added_again() -> None:
    emptied = live(CLIENT)
    emptied["webhooks"] = []
    [_, change] = repair(emptied, "syncline-system", CLIENT)
    assert (change["path"], change["value"][0]["clientConfig"]) == ("/webhooks", CLIENT)
    emptied["webhooks"] = [{"name": "other.example.com"}]
    [_, change] = repair(emptied, "syncline-system", CLIENT)
    assert (change["path"], change["value"]["clientConfig"]) == ("/webhooks/-", CLIENT)


def test_the_path_of_an_address_stays_before_the_token() -> None:
    assert url_client("https://h:1/inject/", "t", "")["url"] == "https://h:1/inject/t"
    assert url_client("https://h:1", "t", "")["url"] == "https://h:1/t"


@pytest.mark.parametrize("url", ["https://127.0.0.1:9443", "https://[::1]:9443/inject", "https://hub.example.com"])
def test_an_address_of_https_is_taken(url: str) -> None:
    assert check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "https://",
        "h:9443",
        "https://u:p@h",
        "https://h?x=1",
        "https://h#x",
        "https://h:99999",
        "https://[::1",
    ],
)
def test_another_address_is_refused(url: str) -> None:
    with pytest.raises(AdmissionUrlError, match="write an address such as"):
        check_url(url)
