"""What is written first, and what last."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.objects import Target
from syncline.core.ordering import Stage, removal_stages, stage_of, stages

ORDER = [
    ["Namespace"],
    ["CustomResourceDefinition.apiextensions.k8s.io"],
    [
        "IngressClass.networking.k8s.io",
        "LimitRange",
        "NetworkPolicy.networking.k8s.io",
        "PriorityClass.scheduling.k8s.io",
        "ResourceQuota",
        "ServiceAccount",
        "StorageClass.storage.k8s.io",
        "VolumeSnapshotClass.snapshot.storage.k8s.io",
    ],
    [
        "ClusterRole.rbac.authorization.k8s.io",
        "ClusterRoleBinding.rbac.authorization.k8s.io",
        "Role.rbac.authorization.k8s.io",
        "RoleBinding.rbac.authorization.k8s.io",
    ],
    ["ConfigMap", "PersistentVolume", "PersistentVolumeClaim", "Secret"],
    ["EndpointSlice.discovery.k8s.io", "Endpoints", "Service"],
    [
        "CronJob.batch",
        "DaemonSet.apps",
        "Deployment.apps",
        "Job.batch",
        "Pod",
        "ReplicaSet.apps",
        "ReplicationController",
        "StatefulSet.apps",
    ],
    [
        "Deployment.example.com",
        "HorizontalPodAutoscaler.autoscaling",
        "Ingress.networking.k8s.io",
        "Pipeline.tekton.dev",
        "PodDisruptionBudget.policy",
        "Service.serving.knative.dev",
    ],
    ["APIService.apiregistration.k8s.io"],
    [
        "MutatingAdmissionPolicy.admissionregistration.k8s.io",
        "MutatingWebhookConfiguration.admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
    ],
]

kinds = st.sampled_from([kind for stage in ORDER for kind in stage])
names = st.sampled_from(["a", "b"])
targets = st.lists(st.builds(Target, names, names, kinds, st.sampled_from(["", "east"])))


def test_kinds_that_others_need_go_first_and_gates_go_last() -> None:
    shuffled = [Target("team", "x", kind) for stage in reversed(ORDER) for kind in reversed(stage)]
    assert [[target.kind for target in stage] for stage in stages(shuffled)] == ORDER


def test_removal_goes_the_other_way_round() -> None:
    everything = [Target("team", "x", kind) for stage in ORDER for kind in stage]
    assert removal_stages(everything) == stages(everything)[::-1]


def test_stages_without_objects_are_left_out() -> None:
    assert stages([]) == []
    assert stages([Target("", "team", "Namespace"), Target("team", "web", "Deployment.apps")]) == [
        [Target("", "team", "Namespace")],
        [Target("team", "web", "Deployment.apps")],
    ]


@pytest.mark.parametrize("kind", ["Role", "Namespace.example.com", "Job.example.com", "Nonsense", "", ".", "a.b.c"])
def test_a_kind_that_only_looks_like_a_known_one_is_of_the_rest(kind: str) -> None:
    assert stage_of(kind) is Stage.REST


@quick
@given(targets)
def test_every_target_is_in_exactly_one_stage_and_stages_ascend(given_targets: list[Target]) -> None:
    result = stages(given_targets)
    flat = [target for stage in result for target in stage]
    assert sorted(flat) == sorted(set(given_targets))
    assert all(stage for stage in result)
    assert all(stage_of(one[0].kind) < stage_of(other[0].kind) for one, other in pairwise(result))
    assert all(len({stage_of(target.kind) for target in stage}) == 1 for stage in result)


@quick
@given(targets, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_given(given_targets: list[Target], random: Random) -> None:
    shuffled = list(given_targets)
    random.shuffle(shuffled)
    assert stages(shuffled) == stages(given_targets)
