"""The settings of the agent: flags beat the environment, and what is missing is named."""

import pytest

from syncline.agent.settings import (
    ENV_CA,
    ENV_CA_FILE,
    ENV_DATA,
    ENV_DEPOT_URL,
    ENV_HEALTH_BIND,
    ENV_TOKEN_FILE,
    AgentSettingsError,
    settings_of,
)

INJECTED = {
    ENV_DEPOT_URL: "https://syncline-depot.syncline-system.svc:8445",
    ENV_CA_FILE: "/var/run/syncline/ca.crt",
    ENV_TOKEN_FILE: "/var/run/syncline/token",
    ENV_DATA: "/usr/local/bin/ignition/data",
    ENV_HEALTH_BIND: ":8086",
}
OUTSIDE = {"kubeconfig": "config", "namespace": "site", "sync": "plant", "pod": "gw-0", "data": "folder"}


def test_the_environment_of_an_injected_container_is_enough() -> None:
    settings = settings_of({}, INJECTED)
    assert not settings.outside
    assert (settings.depot_url, settings.data, settings.health_bind) == (
        INJECTED[ENV_DEPOT_URL],
        INJECTED[ENV_DATA],
        ":8086",
    )


def test_a_flag_beats_its_variable() -> None:
    assert settings_of({"data": "elsewhere"}, INJECTED).data == "elsewhere"


def test_certificates_can_be_in_the_environment_itself() -> None:
    environment = {**INJECTED, ENV_CA: "PEM"}
    del environment[ENV_CA_FILE]
    assert settings_of({}, environment).ca == "PEM"


def test_with_a_kubeconfig_the_depot_is_found_in_the_cluster() -> None:
    settings = settings_of(OUTSIDE, {})
    assert settings.outside
    assert settings.health_bind == "0"


@pytest.mark.parametrize("name", [ENV_DATA, ENV_DEPOT_URL, ENV_TOKEN_FILE, ENV_CA_FILE])
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(AgentSettingsError, match=name):
        settings_of({}, {key: value for key, value in INJECTED.items() if key != name})


@pytest.mark.parametrize("name", ["namespace", "sync", "pod"])
def test_a_kubeconfig_needs_the_pod_that_the_token_is_bound_to(name: str) -> None:
    with pytest.raises(AgentSettingsError, match=f"--{name}"):
        settings_of({**OUTSIDE, name: ""}, {})


@pytest.mark.parametrize(
    ("flag", "url"),
    [
        ("depot_url", "http://depot:8445"),
        ("depot_url", "https://"),
        ("gateway_url", "ftp://127.0.0.1"),
        ("gateway_url", "http://key@127.0.0.1:8088"),
        ("gateway_url", "http://127.0.0.1:99999"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(flag: str, url: str) -> None:
    with pytest.raises(AgentSettingsError, match="write http"):
        settings_of({flag: url}, INJECTED)
