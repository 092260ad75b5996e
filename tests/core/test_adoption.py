"""Which fields of the tools that managed an object before become ours when we adopt it."""

from typing import Any

import pytest

from syncline.core.adoption import FORMER_MANAGERS, hand_over, hand_over_patch

Json = dict[str, Any]

SENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}},
}
ITEM = 'k:{"name":"app"}'
POD = {"f:template": {"f:spec": {"f:containers": {ITEM: {".": {}, "f:name": {}, "f:image": {}, "f:env": {}}}}}}


def entry(manager: str, fields: Json, **more: Any) -> Json:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def ours(fields: Json, **more: Any) -> Json:
    return entry("syncline", fields, **{"operation": "Apply", **more})


def handed(*managed: Json, kind: str = "Deployment.apps", sent: Json = SENT) -> dict[str, Json]:
    """Return the fields of each manager after the hand-over."""
    result = hand_over(managed, sent, kind)
    assert result is not None
    assert len({(one["manager"], one["operation"], one.get("subresource")) for one in result}) == len(result)
    return {one["manager"]: one["fieldsV1"] for one in result}


@pytest.mark.parametrize("manager", sorted(FORMER_MANAGERS))
@pytest.mark.parametrize("operation", ["Apply", "Update"])
def test_the_fields_of_a_former_manager_become_ours_by_apply(manager: str, operation: str) -> None:
    result = hand_over([entry(manager, {"f:spec": POD}, operation=operation)], SENT, "Deployment.apps")
    assert result == [ours({"f:spec": POD})]


@pytest.mark.parametrize(
    "other",
    [
        entry("kube-controller-manager", {"f:spec": {"f:paused": {}}}),
        entry("kube-controller-manager", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
        entry("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
        entry("kustomize-controller", {"f:status": {}}, subresource="status"),
        entry("kubectl-rollout", {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:restarted": {}}}}}}),
        entry("kubectl-annotate", {"f:metadata": {"f:annotations": {"f:syncline.dev/prune": {}}}}),
        entry("somebody", {"f:spec": POD}),
        entry("somebody", {"f:spec": POD}, operation="Apply"),
    ],
    ids=["controller", "autoscaler", "kubectl scale", "status", "restart", "annotate", "update", "apply"],
)
def test_what_others_own_stays_theirs(other: Json) -> None:
    assert hand_over([other], SENT, "Deployment.apps") is None
    result = hand_over([entry("helm", {"f:spec": {"f:minReadySeconds": {}}}), other], SENT, "Deployment.apps")
    assert result is not None
    assert other in result


def test_whoever_applied_as_kubectl_does_is_a_former_manager_by_any_name() -> None:
    annotations = {".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}}
    applied = entry("deploy.sh", {"f:metadata": {"f:annotations": annotations}, "f:spec": POD})
    assert handed(applied) == {
        "syncline": {"f:spec": POD},
        "deploy.sh": {
            "f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/last-applied-configuration": {}}},
        },
    }


def test_several_former_managers_and_our_own_entries_become_one() -> None:
    result = handed(
        ours({"f:spec": {"f:minReadySeconds": {}}}, operation="Update"),
        ours({"f:spec": {"f:paused": {}}}),
        entry("helm", {"f:spec": {"f:strategy": {}}}),
        entry("kubectl-edit", {"f:spec": {"f:strategy": {"f:type": {}}}}),
    )
    assert result == {
        "syncline": {
            "f:spec": {"f:minReadySeconds": {}, "f:paused": {}, "f:strategy": {".": {}, "f:type": {}}},
        }
    }


def test_of_labels_and_annotations_only_those_that_we_send_are_handed_over() -> None:
    metadata = {
        "f:labels": {".": {}, "f:app": {}, "f:kustomize.toolkit.fluxcd.io/name": {}},
        "f:annotations": {".": {}, "f:note": {}, "f:syncline.dev/prune": {}},
        "f:finalizers": {'v:"theirs"': {}},
        "f:ownerReferences": {},
    }
    assert handed(entry("kustomize-controller", {"f:metadata": metadata, "f:spec": POD})) == {
        "syncline": {"f:metadata": {"f:labels": {"f:app": {}}, "f:annotations": {"f:note": {}}}, "f:spec": POD},
        "kustomize-controller": {
            "f:metadata": {
                "f:labels": {"f:kustomize.toolkit.fluxcd.io/name": {}},
                "f:annotations": {"f:syncline.dev/prune": {}},
                "f:finalizers": {'v:"theirs"': {}},
                "f:ownerReferences": {},
            }
        },
    }


@pytest.mark.parametrize(
    ("kind", "fields", "stays"),
    [
        ("Deployment.apps", {"f:replicas": {}, "f:paused": {}}, {"f:replicas": {}}),
        ("Service", {"f:clusterIP": {}, "f:type": {}}, {"f:clusterIP": {}}),
        (
            "Service",
            {"f:ports": {'k:{"port":80}': {".": {}, "f:port": {}, "f:nodePort": {}}}},
            {"f:ports": {'k:{"port":80}': {"f:nodePort": {}}}},
        ),
        ("PersistentVolumeClaim", {"f:volumeName": {}, "f:resources": {}}, {"f:volumeName": {}}),
    ],
    ids=["replicas", "address", "port", "volume"],
)
def test_what_an_autoscaler_or_the_server_may_have_set_stays_unless_it_is_sent(
    kind: str, fields: Json, stays: Json
) -> None:
    assert handed(entry("helm", {"f:spec": fields}), kind=kind)["helm"] == {"f:spec": stays}
    sent = {"spec": {name[2:]: 1 for name in fields}}
    if "f:ports" not in fields:
        assert handed(entry("helm", {"f:spec": fields}), kind=kind, sent=sent) == {"syncline": {"f:spec": fields}}


def test_fields_of_another_api_version_are_not_joined_with_ours() -> None:
    old = entry("helm", {"f:spec": {"f:old": {}}}, apiVersion="apps/v1beta1", time="2020-01-01T00:00:00Z")
    new = entry("kubectl", {"f:spec": {"f:new": {}}})
    assert handed(old, new) == {"helm": {"f:spec": {"f:old": {}}}, "syncline": {"f:spec": {"f:new": {}}}}
    assert handed(old) == {"syncline": {"f:spec": {"f:old": {}}}}


def test_what_is_given_is_not_changed_and_a_second_time_nothing_is_to_do() -> None:
    managed = [entry("helm", {"f:spec": POD}), ours({"f:spec": {"f:template": {}}})]
    before = repr(managed)
    result = hand_over(managed, SENT, "Deployment.apps")
    assert repr(managed) == before
    assert result is not None
    assert hand_over(result, SENT, "Deployment.apps") is None


def test_the_patch_hits_only_the_object_that_was_seen() -> None:
    managed = [ours({"f:spec": POD})]
    assert hand_over_patch(managed, "uid-1", "7") == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/metadata/managedFields", "value": managed},
    ]
