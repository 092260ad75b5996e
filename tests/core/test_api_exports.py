"""APIExports: their addresses, the workspaces that are bound to them, and what absence proves."""

from typing import Any

import msgspec
import pytest

from syncline.core.api_exports import (
    MAX_WORKSPACES,
    Binding,
    BindingWire,
    choose_bindings,
    is_same_host,
    read_binding,
    read_endpoint,
)
from syncline.core.group_kind import GroupResource
from syncline.core.namespace_mapping import Workspace, WorkspaceError

CONFIGMAPS = GroupResource("", "configmaps")
SECRETS = GroupResource("", "secrets")
DEPLOYMENTS = GroupResource("apps", "deployments")


def claim(resource: str, *, state: str = "", **selector: Any) -> dict[str, Any]:
    """Return a permission claim."""
    accepted = {"state": state} if state else {}
    return {"group": "", "resource": resource, "selector": selector or {"matchAll": True}, **accepted}


def binding(cluster: str = "c1", *, uid: str = "u1", deleted: bool = False, **changes: Any) -> Binding:
    """Return an APIBinding of the APIExport `apps` of the logical cluster `p1`."""
    body = {
        "metadata": {
            "name": "apps",
            "uid": uid,
            "annotations": {"kcp.io/cluster": cluster, "kcp.io/path": f"root:{cluster}"},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
        },
        "spec": {
            "reference": {"export": {"name": changes.get("export", "apps"), "path": "root:p"}},
            "permissionClaims": changes.get("claims", [claim("configmaps", state="Accepted")]),
        },
        "status": {
            "phase": changes.get("phase", "Bound"),
            "apiExportClusterName": "p1",
            "appliedPermissionClaims": changes.get("applied", [claim("configmaps")]),
            "boundResources": [{"group": "apps", "resource": "deployments"}],
        },
    }
    return read_binding(msgspec.convert(body, BindingWire))


def test_a_binding_names_its_workspace_and_what_can_be_read() -> None:
    found = binding()
    assert found.workspace == Workspace("root:c1", "c1", "c1")
    assert found.export == ("p1", "apps")
    assert found.granted == {CONFIGMAPS, DEPLOYMENTS}


@pytest.mark.parametrize(
    "later",
    [
        binding(claims=[claim("configmaps", state="Rejected")]),
        binding(applied=[]),
        binding(claims=[claim("configmaps", state="Accepted", matchLabels={"a": "b"})]),
        binding(applied=[claim("configmaps", matchLabels={"a": "b"})]),
        binding(phase="Binding"),
        binding(deleted=True),
        binding(uid="u2"),
        binding(export="other"),
    ],
    ids=["rejected", "not-applied", "selected", "applied-to-some", "not-bound", "deleted", "bound-again", "other"],
)
def test_absence_proves_nothing_where_objects_may_be_hidden(later: Binding) -> None:
    assert not binding().proves(later, CONFIGMAPS)


def test_absence_is_a_deletion_while_the_binding_shows_everything() -> None:
    assert binding().proves(binding(), CONFIGMAPS)
    assert binding().proves(binding(), DEPLOYMENTS)
    assert not binding().proves(binding(), SECRETS)


def test_only_bindings_of_the_export_are_followed() -> None:
    found = choose_bindings(
        [binding("c1"), binding("c2", export="other"), binding("c3", phase="Binding"), binding("../etc"), binding("")],
        [("p1", "apps")],
        frozenset(),
    )
    assert [one.workspace.cluster for one in found.bindings] == ["c1"]
    assert found.left_out == 0


def test_too_many_workspaces_are_left_out_and_never_those_that_have_copies() -> None:
    many = [binding(f"c{number:04}") for number in range(MAX_WORKSPACES + 2)]
    last = many[-1].workspace.cluster
    found = choose_bindings(many, [("p1", "apps")], frozenset({last}))
    assert len(found.bindings) == MAX_WORKSPACES
    assert found.left_out == 2
    assert last in {one.workspace.cluster for one in found.bindings}


def test_an_endpoint_gives_the_address_of_each_logical_cluster() -> None:
    endpoint = read_endpoint("https://kcp:6443/services/apiexport/p1/apps", "apps")
    assert endpoint.cluster == "p1"
    assert endpoint.server("c1") == "https://kcp:6443/services/apiexport/p1/apps/clusters/c1"
    assert not endpoint.is_other


@pytest.mark.parametrize(("home", "is_other"), [("p1", False), ("p2", True), ("", False)])
def test_an_endpoint_of_another_workspace_is_told_from_the_own(home: str, is_other: bool) -> None:
    assert read_endpoint("https://kcp:6443/services/apiexport/p1/apps", "apps", home).is_other is is_other


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://kcp/services/apiexport/p1/apps",
        "https://kcp/services/apiexport/p1/other",
        "https://kcp/services/apiexport/p1",
        "https://kcp/services/apiexport//apps",
        "https://kcp/clusters/root",
        "https://user@kcp/services/apiexport/p1/apps",
        "https://kcp/services/apiexport/p1/apps?x=y",
        "https://kcp/services/apiexport/p1/apps/clusters/root",
        "https://kcp/services/apiexport/../apps",
        "https://kcp/services/apiexport/%2e%2e/apps",
        "https://kcp/services/apiexport/p1%2f..%2fp2/apps",
    ],
)
def test_any_other_address_is_refused(url: str) -> None:
    with pytest.raises(WorkspaceError, match="APIExport apps"):
        read_endpoint(url, "apps")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://kcp/clusters/root", "https://KCP:443/services", True),
        ("https://kcp.:6443", "https://kcp:6443/x", True),
        ("https://kcp:6443", "https://kcp", False),
        ("https://kcp", "https://kcp.evil.example", False),
        ("https://kcp", "https://kcp:99999999", False),
    ],
)
def test_hosts_are_compared_with_their_ports(one: str, other: str, *, same: bool) -> None:
    assert is_same_host(one, other) is same
