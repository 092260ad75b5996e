"""What the flags of the admission webhook mean, before anything is served."""

import re

import pytest

from syncline.admission_service import admission_hosts, is_too_old
from syncline.agent_services import hosts_of
from syncline.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("version", "too_old"),
    [("v1.28.15", True), ("v1.9.0", True), ("v1.29.0", False), ("v1.37.1", False), ("v1.31.0+kcp-v0.31.2", False)],
)
def test_native_sidecars_need_kubernetes_1_29(version: str, too_old: bool) -> None:
    assert is_too_old(version) is too_old


def test_a_version_that_cannot_be_read_counts_as_new() -> None:
    assert not is_too_old("")
    assert not is_too_old("v2.0.0")


@pytest.mark.parametrize(
    ("bind", "url", "cause"),
    [
        ("0", "https://127.0.0.1:9443", "--admission-url needs --admission-bind"),
        (":9443", "http://127.0.0.1:9443", "--admission-url http://127.0.0.1:9443: write an address such as"),
        (":9443", "https://127.0.0.1:9443?x=y", "without a query"),
    ],
)
def test_an_address_that_nobody_can_call_is_refused_at_the_start(bind: str, url: str, cause: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(cause)):
        Settings(admission_bind=bind, admission_url=url).checked_admission_url()


def test_the_certificate_covers_the_service_and_the_address() -> None:
    settings = Settings(admission_bind=":9443", admission_url="https://10.0.0.7:9443/inject", depot_bind=":8444")
    assert "syncline-admission.syncline-system.svc" in admission_hosts(settings)
    assert "10.0.0.7" in admission_hosts(settings)
    assert "syncline-depot.syncline-system.svc" in hosts_of(settings)
    assert all(admission_hosts(Settings()))
