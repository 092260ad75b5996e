"""The agent in new pods: what is added, where, and what is told of a pod that cannot have one."""

import copy
from typing import Any

import msgspec
import pytest

from syncline.agent import settings
from syncline.api.ignition_agent import AgentImage, AgentOptions, AgentResources
from syncline.api.ignition_apply import Apply, ApplyHeader, ApplyRequest, GatewayConnection
from syncline.api.ignition_git import IgnitionGit, SecretKeySelector
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core import injection
from syncline.core.injection import (
    AgentFacts,
    Injection,
    NewPod,
    NoAgentError,
    SecretFile,
    SyncFacts,
    chosen_sync,
    facts_of,
    image_of,
    inject,
)

Json = dict[str, Any]
AGENT = AgentFacts("registry.example.com/syncline:1.0", "https://syncline-depot.syncline-system.svc:8444", "PEM\n")
SYNC = SyncFacts(name="plant", api_key=SecretFile("gw", "apiKey"))


def gateway(**more: Any) -> Json:
    mounts = [{"name": "data", "mountPath": "/usr/local/bin/ignition/data"}]
    return {"name": "gateway", "image": "ignition", "volumeMounts": mounts, **more}


def pod(*containers: Json, annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"annotations": {"ignition-sync.io/inject": "true", "ignition-sync.io/cr-name": "plant"}}
        if annotations is None
        else {"annotations": annotations},
        "spec": {
            "containers": list(containers) or [gateway()],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "securityContext": {"runAsUser": 2003, "runAsGroup": 2003, "fsGroup": 2003},
            **spec,
        },
    }


def read(given: Json) -> NewPod:
    return msgspec.convert(given, NewPod)


def patched(given: Json, done: Injection) -> Json:
    """Apply a JSON patch of the operations that are used here."""
    result = copy.deepcopy(given)
    for change in done.patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]]
        place: Any = result
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if isinstance(place, list) and last == "-":
            place.append(change["value"])
        elif change["op"] == "replace":
            assert last in place
            place[last] = change["value"]
        else:
            place[last] = change["value"]
    return result


def injected(given: Json, sync: SyncFacts = SYNC, agent: AgentFacts = AGENT) -> tuple[Json, Injection]:
    """Return the pod after the injection."""
    done = inject(read(given), sync, agent)
    return patched(given, done), done


def container(given: Json) -> Json:
    [found] = [one for one in given["spec"]["initContainers"] if one["name"] == "syncline-agent"]
    return found  # type: ignore[no-any-return]


def environment(given: Json) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container(given)["env"]}


def test_the_agent_is_a_native_sidecar_after_the_init_containers_of_the_pod() -> None:
    given = pod(initContainers=[{"name": "preconfigure", "image": "ignition"}])
    after, done = injected(given)
    assert done.result == "injected"
    assert [one["name"] for one in after["spec"]["initContainers"]] == ["preconfigure", "syncline-agent"]
    assert container(after)["restartPolicy"] == "Always"
    probe = container(after)["startupProbe"]
    assert probe["httpGet"]["path"] == "/startupz"
    assert probe["periodSeconds"] * probe["failureThreshold"] == 3600, "a large first fetch takes minutes"
    assert not done.warnings


def test_a_pod_without_init_containers_and_volumes_gets_lists_of_its_own() -> None:
    after, _ = injected(pod())
    assert len(after["spec"]["initContainers"]) == 1
    given = pod()
    given["spec"]["initContainers"] = None
    assert len(injected(given)[0]["spec"]["initContainers"]) == 1


def test_the_data_folder_is_mounted_where_the_gateway_has_it() -> None:
    one = gateway(volumeMounts=[{"name": "disk", "mountPath": "/usr/local/bin/ignition/data/", "subPath": "blue"}])
    after, _ = injected(pod(one, volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]))
    assert container(after)["volumeMounts"][0] == {
        "name": "disk",
        "mountPath": "/usr/local/bin/ignition/data/",
        "subPath": "blue",
    }
    assert environment(after)["SYNCLINE_DATA"] == "/usr/local/bin/ignition/data/"


@pytest.mark.parametrize(
    ("annotations", "name", "path"),
    [
        ({}, "data", "/data"),
        ({"ignition-sync.io/data-volume": "conf"}, "conf", "/etc/app"),
        ({"ignition-sync.io/data-path": "/etc/app/"}, "conf", "/etc/app"),
        ({"ignition-sync.io/data-volume": "conf", "ignition-sync.io/data-path": "/second"}, "conf", "/second"),
    ],
)
def test_annotations_name_the_folder_of_another_application(annotations: Json, name: str, path: str) -> None:
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "conf", "mountPath": "/etc/app", "readOnly": True},
        {"name": "conf", "mountPath": "/second"},
    ]
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "conf", "emptyDir": {}}]
    given = pod({"name": "app", "volumeMounts": mounts}, annotations=annotations, volumes=volumes)
    after, _ = injected(given)
    assert container(after)["volumeMounts"][0] == {"name": name, "mountPath": path}


def test_the_token_is_for_the_depot_alone_and_the_key_is_optional() -> None:
    after, _ = injected(pod())
    volumes = {one["name"]: one for one in after["spec"]["volumes"]}
    [source] = volumes["syncline-token"]["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "syncline"
    key = volumes["syncline-api-key"]["secret"]
    assert (key["secretName"], key["optional"], key["items"]) == ("gw", True, [{"key": "apiKey", "path": "key"}])
    assert environment(after)["SYNCLINE_API_KEY_FILE"] == "/var/run/syncline/api-key/key"
    assert {one["mountPath"]: one.get("readOnly", False) for one in container(after)["volumeMounts"]} == {
        "/usr/local/bin/ignition/data": False,
        "/var/run/syncline/token": True,
        "/var/run/syncline/api-key": True,
    }


def test_a_sync_without_a_key_mounts_none() -> None:
    after, _ = injected(pod(), SyncFacts(name="plant"))
    assert [one["name"] for one in after["spec"]["volumes"]] == ["data", "syncline-token"]
    assert "SYNCLINE_API_KEY_FILE" not in environment(after)


def test_the_values_of_headers_are_files_that_may_be_missing() -> None:
    sync = SyncFacts(name="plant", secrets=(SecretFile("hooks", "one"), SecretFile("hooks", "two")))
    after, _ = injected(pod(), sync)
    projected = after["spec"]["volumes"][-1]["projected"]
    assert all(one["secret"]["optional"] for one in projected["sources"])
    assert [one["secret"]["items"][0]["path"] for one in projected["sources"]] == ["hooks/one", "hooks/two"]
    assert environment(after)["SYNCLINE_SECRETS_DIR"] == "/var/run/syncline/secrets"


def test_the_environment_is_the_one_that_the_agent_reads() -> None:
    sync = SyncFacts(name="plant", api_key=SecretFile("gw", "key"), secrets=(SecretFile("hooks", "one"),))
    values = environment(injected(pod(), sync)[0])
    known = {value for name, value in vars(settings).items() if name.startswith("ENV_")}
    assert values.keys() <= known
    got = settings.settings_of({}, values)
    assert (got.depot_url, got.ca, got.data) == (AGENT.depot_url, AGENT.ca, "/usr/local/bin/ignition/data")
    assert got.api_key_file
    assert got.secrets_dir
    assert got.health_bind == ":15080"
    assert injection.STARTUP_PATH == settings.STARTUP_PATH
    assert injection.HEALTH_PATH == settings.HEALTH_PATH


def test_a_dollar_sign_is_no_reference_to_a_variable() -> None:
    one = gateway(volumeMounts=[{"name": "data", "mountPath": "/data/$(HOME)"}])
    assert environment(injected(pod(one))[0])["SYNCLINE_DATA"] == "/data/$$(HOME)"


def test_the_port_of_the_probes_is_one_that_the_pod_does_not_use() -> None:
    one = gateway(ports=[{"containerPort": 15080}, {"containerPort": 8088, "hostPort": 15081}])
    after, _ = injected(pod(one, initContainers=[{"name": "a", "ports": [{"containerPort": 15082}]}]))
    assert container(after)["startupProbe"]["httpGet"]["port"] == 15083
    assert container(after)["livenessProbe"]["httpGet"]["port"] == 15083
    assert environment(after)["SYNCLINE_HEALTH_BIND"] == ":15083"


@pytest.mark.parametrize(
    ("of_pod", "of_gateway", "user", "group", "warnings"),
    [
        ({"runAsUser": 2003, "runAsGroup": 2004}, None, 2003, 2004, 0),
        ({"runAsUser": 2003}, {"runAsUser": 7, "runAsGroup": 8}, 7, 8, 0),
        ({"runAsUser": 2003}, {"runAsGroup": 8}, 2003, 8, 0),
        (None, None, None, None, 1),
        ({}, {}, None, None, 1),
        (None, {"runAsUser": 0}, 0, None, 1),
        ({"runAsUser": 2003}, {"runAsUser": 0}, 0, None, 1),
    ],
)
def test_the_agent_is_restricted_and_runs_as_the_user_of_the_gateway(
    of_pod: Json | None, of_gateway: Json | None, user: int | None, group: int | None, warnings: int
) -> None:
    given = pod(gateway(securityContext=of_gateway), securityContext=of_pod)
    after, done = injected(given)
    context = container(after)["securityContext"]
    assert (context.get("runAsUser"), context.get("runAsGroup")) == (user, group)
    assert context["runAsNonRoot"] is (user != 0)
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert len(done.warnings) == warnings
    assert all("gateway" in one for one in done.warnings)


def test_the_sync_chooses_the_resources() -> None:
    assert container(injected(pod())[0])["resources"] == {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"cpu": "200m", "memory": "256Mi"},
    }
    limited = SyncFacts(name="plant", limits={"memory": "1Gi"})
    assert container(injected(pod(), limited)[0])["resources"] == {"requests": {}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("wanted", "own", "image"),
    [
        (AgentImage(), "syncline:1.0", "syncline:1.0"),
        (AgentImage(), "registry.example.com:5000/syncline", "registry.example.com:5000/syncline"),
        (AgentImage(), "r/syncline:1.0@sha256:" + "a" * 64, "r/syncline:1.0@sha256:" + "a" * 64),
        (AgentImage(tag="2.0"), "r:5000/syncline:1.0", "r:5000/syncline:2.0"),
        (AgentImage(repository="r/other"), "syncline:1.0", "r/other:1.0"),
        (AgentImage(repository="r/other"), "syncline:1.0@sha256:" + "a" * 64, "r/other:1.0"),
        (AgentImage(repository="r/other", tag="3"), "syncline:1.0", "r/other:3"),
        (AgentImage(digest="sha256:" + "b" * 64), "r/syncline:1.0", "r/syncline@sha256:" + "b" * 64),
        (AgentImage(tag="3", digest="sha256:" + "b" * 64), "r/s:1.0@sha256:" + "a" * 64, "r/s@sha256:" + "b" * 64),
    ],
)
def test_absent_fields_of_the_image_are_those_of_the_operator(wanted: AgentImage, own: str, image: str) -> None:
    assert image_of(wanted, own) == image


def test_a_paused_sync_is_told_and_keeps_no_agent_away() -> None:
    after, done = injected(pod(), SyncFacts(name="plant", paused=True))
    assert container(after)
    assert any("paused" in warning for warning in done.warnings)


class TestAgain:
    def test_a_second_injection_changes_nothing(self) -> None:
        once, _ = injected(pod())
        again, done = injected(once)
        assert (done.result, done.patch, done.warnings) == ("present", [], ())
        assert again == once

    def test_what_other_webhooks_have_changed_stays(self) -> None:
        once, _ = injected(pod())
        container(once)["resources"] = {"limits": {"memory": "1Gi"}}
        container(once)["env"].append({"name": "PROXY", "value": "x"})
        once["spec"]["initContainers"].insert(0, {"name": "istio-proxy", "restartPolicy": "Always"})
        assert injected(once)[0] == once

    def test_a_copy_of_a_running_pod_gets_the_current_address_and_certificates(self) -> None:
        once, _ = injected(pod(initContainers=[{"name": "first"}]))
        later = AgentFacts("syncline:2.0", "https://elsewhere:1", "NEW")
        again, done = injected(once, agent=later)
        assert done.result == "present"
        assert environment(again)["SYNCLINE_DEPOT_URL"] == "https://elsewhere:1"
        assert environment(again)["SYNCLINE_CA"] == "NEW"
        assert container(again)["image"] == "registry.example.com/syncline:1.0"
        assert injected(again, agent=later)[0] == again

    @pytest.mark.parametrize(
        "spec",
        [
            {"initContainers": [{"name": "syncline-agent", "image": "mine"}]},
            {"initContainers": [{"name": "syncline-agent", "image": "mine", "restartPolicy": "Always"}]},
            {"containers": [gateway(), {"name": "syncline-agent", "image": "mine"}]},
            {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "syncline-token", "emptyDir": {}}]},
            {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "syncline-api-key", "emptyDir": {}}]},
        ],
    )
    def test_a_container_or_volume_of_the_same_name_is_left_alone(self, spec: Json) -> None:
        with pytest.raises(NoAgentError, match="rename it"):
            injected(pod(**spec))


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (pod({"name": "app"}, volumes=[]), "no volume is mounted"),
        (pod({"name": "app"}), "no volume is mounted"),
        (pod(annotations={"ignition-sync.io/data-volume": "x"}), "mounts what the annotations name"),
        (pod(annotations={"ignition-sync.io/data-path": "/x"}), "mounts what the annotations name"),
        (pod(volumes=[]), "has no volume data"),
        (pod(volumes=[{"name": "data", "configMap": {"name": "c"}}]), "cannot be written"),
        (pod(volumes=[{"name": "data", "secret": {}}]), "cannot be written"),
        (pod(volumes=[{"name": "data", "downwardAPI": {}}]), "cannot be written"),
        (pod(volumes=[{"name": "data", "persistentVolumeClaim": {"readOnly": True}}]), "cannot be written"),
        (pod(gateway(volumeMounts=[{"name": "data", "mountPath": "/d", "subPathExpr": "$(X)"}])), "subPathExpr"),
        (pod(gateway(volumeMounts=[{"name": "data", "mountPath": "d"}])), "no absolute path"),
        (pod(gateway(volumeMounts=[{"name": "data", "mountPath": "/var/run/syncline/token"}])), "is that of the agent"),
        (pod(gateway(volumeMounts=[{"name": "data", "mountPath": "/var/run/syncline/"}])), "is that of the agent"),
        (pod(os={"name": "windows"}), "Windows"),
        (pod(annotations={"kubernetes.io/config.mirror": "x"}), "static pod"),
        ({"spec": {}}, "no volume is mounted"),
        ({}, "no volume is mounted"),
    ],
)
def test_a_pod_that_cannot_have_an_agent_is_told_why(given: Json, cause: str) -> None:
    with pytest.raises(NoAgentError, match=cause):
        injected(given)


def test_the_only_sync_of_a_namespace_is_meant_and_written_down() -> None:
    given = pod(annotations={"ignition-sync.io/inject": "true"})
    assert chosen_sync(read(given), ["plant"]) == "plant"
    after, _ = injected(given)
    assert after["metadata"]["annotations"]["ignition-sync.io/cr-name"] == "plant"
    bare = {"metadata": {}, "spec": pod()["spec"]}
    assert injected(bare)[0]["metadata"]["annotations"] == {"ignition-sync.io/cr-name": "plant"}


@pytest.mark.parametrize(
    ("annotations", "names", "cause"),
    [
        ({"ignition-sync.io/cr-name": "plant"}, [], "no IgnitionSync plant"),
        ({"ignition-sync.io/cr-name": "plant"}, ["other"], "no IgnitionSync plant"),
        ({}, [], "no IgnitionSync in this namespace"),
        ({}, ["b", "a"], "several IgnitionSyncs.*: a, b"),
        ({}, [f"s{number}" for number in range(9)], r"s0, s1, s2, s3, s4, \.\.\."),
        ({"ignition-sync.io/cr-name": "x" * 5000}, [], r"x{60}\.\.\."),
    ],
)
def test_a_pod_whose_sync_is_missing_or_not_clear_is_told_so(annotations: Json, names: list[str], cause: str) -> None:
    with pytest.raises(NoAgentError, match=cause) as error:
        chosen_sync(read({"metadata": {"annotations": annotations}}), names)
    assert len(str(error.value)) < 256


def test_the_facts_of_a_sync_are_those_of_its_spec() -> None:
    header = ApplyHeader(name="Authorization", secret_ref=SecretKeySelector(name="hooks", key="one"))
    spec = IgnitionSyncSpec(
        git=IgnitionGit(repo="https://git.example.com/plant.git", ref="main"),
        gateway=GatewayConnection(api_key_secret_ref=SecretKeySelector(name="gw", key="apiKey")),
        apply=Apply(type="HTTP", http=ApplyRequest(port=80, headers=[header, header])),
        agent=AgentOptions(image=AgentImage(tag="2"), resources=AgentResources(limits={"memory": "1Gi"})),
        suspend=True,
    )
    assert facts_of("plant", spec) == SyncFacts(
        name="plant",
        paused=True,
        image=AgentImage(tag="2"),
        limits={"memory": "1Gi"},
        api_key=SecretFile("gw", "apiKey"),
        secrets=(SecretFile("hooks", "one"),),
    )


def test_a_signal_needs_a_pod_that_shares_its_processes_and_it_is_never_set() -> None:
    sync = msgspec.structs.replace(SYNC, needs_processes=True)
    after, done = injected(pod(), sync)
    assert "shareProcessNamespace" not in after["spec"]
    assert done.warnings == (
        "IgnitionSync plant has apply.type: Signal, which needs shareProcessNamespace: true in the pod",
    )
    assert not injected(pod(shareProcessNamespace=True), sync)[1].warnings
