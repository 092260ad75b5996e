"""Each file of examples/configsync is taken by a real API server, with a real Git server, and does what it says."""

import hashlib
import hmac
import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from tests.examples.gitscene import GitScene, tekton
from tests.examples.scene import Check, path
from tests.fleet.world import Remote

from syncline.core.ownership import OWNER_LABEL
from syncline.deploy import Manifest
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.gitssh import SshServer
from syncline.testing.operator import OperatorProcess

Play = Callable[..., GitScene]
# How often the pods of a Deployment were replaced, as its controller counts.
ROLLOUTS = "deployment.kubernetes.io/revision"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[GitServer, SshServer]]:
    """The same repositories over https and over ssh."""
    with GitServer() as https, SshServer(https.folder) as ssh:
        yield https, ssh


@pytest.fixture
def play(
    sandbox: Sandbox,
    operator: OperatorProcess,
    eventually: Callable[[Check], None],
    servers: tuple[GitServer, SshServer],
) -> Iterator[Play]:
    """Apply an example, and remove it at the end of the test."""
    scenes: list[GitScene] = []

    def start(name: str, more: Mapping[str, bytes] | None = None) -> GitScene:
        scenes.append(GitScene(sandbox, eventually, name, servers, more or {}))
        return scenes[-1]

    yield start
    for scene in scenes:
        with suppress(RequestError):
            scene.delete_sync()
        for manifest in scene.manifests:
            # Rights stay: whoever had them and lost them would be slow to believe the next example.
            if manifest["kind"] == "Namespace":
                sandbox.request("DELETE", path(manifest))
    assert operator.returncode is None, operator.log()[-2000:]


def is_ready(scene: GitScene, reason: str = "Synced") -> Callable[[], bool]:
    return lambda: scene.ready() == ("True", reason)


def deployment(namespace: str, name: str) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": name}}


def secret(namespace: str, name: str, **values: str) -> Manifest:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def test_01_manifests_go_where_they_say(play: Play) -> None:
    scene = play("configsync/01-plain.yaml")
    scene.eventually(is_ready(scene))
    assert scene.status()["sourceRevision"] == scene.commit
    assert scene.data("museum", "exhibits") == {"opens": "09:00"}
    scene.edit("museum-shop", "tickets", {"price": "0"})
    scene.eventually(lambda: scene.data("museum-shop", "tickets") == {"price": "12"})
    scene.push({"plain/exhibits.yaml": scene.text("plain/exhibits.yaml").partition("---")[0]})
    scene.ask()
    scene.eventually(lambda: scene.data("museum-shop", "tickets") is None)
    assert scene.data("museum", "exhibits") == {"opens": "09:00"}


def test_02_an_overlay_is_built_with_its_base(play: Play) -> None:
    scene = play("configsync/02-kustomize.yaml")
    scene.eventually(is_ready(scene))
    assert scene.data("terrace", "terrace-menu") == {"soup": "tomato", "bread": "rye"}
    assert scene.data("terrace", "terrace-tables") == {"count": "8"}


def test_03_a_chart_is_rendered_with_values_of_several_places(play: Play) -> None:
    scene = play("configsync/03-helm.yaml")
    scene.eventually(is_ready(scene))
    expected = {"station": "coast", "frequency": "104.6", "programme": "news, tides"}
    assert scene.data("radio", "coast-station") == expected


def test_04_jsonnet_is_evaluated_with_arguments_and_libraries(play: Play) -> None:
    scene = play("configsync/04-jsonnet.yaml")
    scene.eventually(is_ready(scene))
    assert scene.data("reef", "chart-long") == {"depth": "10 m"}
    assert scene.data("reef", "chart-round") == {"depth": "20 m"}


def test_05_files_are_templates(play: Play) -> None:
    scene = play("configsync/05-template.yaml")
    scene.eventually(is_ready(scene))
    expected = {"floors": "3", "stops": "ground, deck, roof", "mode": "night", "asked-by": "tower/lift"}
    assert scene.data("tower", "lift") == expected
    scene.edit_file("template/lift.yaml", "building }}", "street }}")
    scene.ask()
    scene.eventually(lambda: scene.ready() == ("False", "BuildFailed"))
    assert "template/lift.yaml, line 6" in scene.condition()["message"]
    assert scene.data("tower", "lift") == expected


def test_06_encrypted_files_are_read(play: Play) -> None:
    scene = play("configsync/06-sops.yaml")
    scene.eventually(is_ready(scene))
    assert scene.secret("safe", "combination") == {"left": "31", "right": "7"}


def test_07_environments_have_revisions_of_their_own(play: Play) -> None:
    scene = play("configsync/07-environments.yaml")
    scene.eventually(is_ready(scene))
    scene.edit_file("environments/shop.yaml", "release: one", "release: two")
    scene.ask()
    dev = {"release": "two", "replicas": "1", "environment": "dev"}
    scene.eventually(lambda: scene.data("shop-dev", "shop") == dev)
    assert scene.data("shop-prod", "shop") == {"release": "one", "replicas": "5", "environment": "prod"}
    scene.eventually(is_ready(scene))
    scene.command("promote", "--from", "dev", "--to", "prod")
    prod = {"release": "two", "replicas": "5", "environment": "prod"}
    scene.eventually(lambda: scene.data("shop-prod", "shop") == prod)


def test_08_only_what_is_listed_is_written(play: Play) -> None:
    scene = play("configsync/08-targets.yaml")
    scene.eventually(is_ready(scene))
    assert scene.data("depot-east", "routes") == {"morning": "6", "evening": "9"}
    assert scene.data("depot-west", "routes") == {"morning": "6", "evening": "4"}
    assert [scene.data(place, "drafts") for place in ("depot", "depot-east")] == [None, None]
    assert "ConfigMap drafts is not in targets" in scene.condition("Reported")["message"]


def test_09_files_become_config_maps_and_secrets(play: Play) -> None:
    scene = play("configsync/09-files.yaml")
    scene.eventually(is_ready(scene))
    conf, robots = scene.text("files/nginx.conf"), scene.text("files/robots.txt")
    assert scene.secret("portal", "server") == {"main.conf": conf}
    scene.eventually(lambda: scene.data("portal", "site") == {"nginx.conf": conf, "robots.txt": robots})


def test_10_several_sources_are_applied_as_one(play: Play) -> None:
    scene = play("configsync/10-several-sources.yaml")
    scene.eventually(is_ready(scene))
    texts = [(scene.data("chorus", name) or {}).get("text") for name in ("greeting", "farewell", "applause")]
    assert texts == ["hello", "goodbye", "bravo"]
    farewell = scene.config_map("chorus", "farewell") or {}
    assert farewell["metadata"]["labels"]["choir"] == "harbour"
    assert [one["name"] for one in scene.status()["revisions"]] == ["platform", "team", "extra"]


def test_11_a_private_repository_is_read_with_a_token(play: Play, servers: tuple[GitServer, SshServer]) -> None:
    servers[0].require_basic("configsync-11-private-token", "x-access-token", "change-me")
    scene = play("configsync/11-private-token.yaml")
    scene.eventually(is_ready(scene))
    assert scene.data("bank-vault", "vault") == {"door": "round"}
    scene.apply(secret("bank-vault", "git-token", token="wrong"))
    scene.eventually(lambda: scene.ready() == ("False", "AuthenticationFailed"))
    assert scene.data("bank-vault", "vault") == {"door": "round"}


def test_12_a_private_repository_is_read_over_ssh(play: Play, servers: tuple[GitServer, SshServer]) -> None:
    scene = play("configsync/12-private-ssh.yaml")
    values = {"identity": servers[1].identity.decode(), "known_hosts": servers[1].known_hosts.decode()}
    scene.apply(secret("bank-cellar", "git-key", **values))
    scene.eventually(is_ready(scene))
    assert scene.data("bank-cellar", "vault") == {"door": "round"}


def test_13_only_signed_commits_are_taken(play: Play, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    file = tmp_path / "alice"
    file.touch(0o600)
    file.write_bytes(key.export_private_key("openssh"))
    public = key.export_public_key("openssh").decode()
    file.with_suffix(".pub").write_text(public, encoding="ascii")
    scene = play("configsync/13-signed-commits.yaml")
    scene.apply(secret("registry", "signers", **{"alice.pub": public}))
    scene.eventually(lambda: scene.ready() == ("False", "Unverified"))
    assert scene.data("registry", "deed") is None
    commit = scene.sign(file)
    scene.ask()
    scene.eventually(lambda: scene.is_at(commit))
    assert scene.data("registry", "deed") == {"owner": "the mill"}


def test_14_a_push_arrives_by_webhook(play: Play, operator: OperatorProcess) -> None:
    scene = play("configsync/14-webhook.yaml")
    scene.eventually(is_ready(scene))
    scene.edit_file("webhook/board.yaml", "09:40", "10:10")
    body = json.dumps({"ref": "refs/heads/main"}).encode()
    signature = "sha256=" + hmac.new(b"change-me", body, hashlib.sha256).hexdigest()
    serving = next(event for event in operator.events() if event["event"] == "serving")
    port = serving["webhooks"].rpartition(":")[2]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/webhook/station/board",
        data=body,
        headers={"X-GitHub-Event": "push", "X-Hub-Signature-256": signature, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 202
    scene.eventually(lambda: scene.data("station", "board") == {"next": "10:10"})


def test_15_one_sync_waits_for_another(play: Play) -> None:
    scene = play("configsync/15-depends-on.yaml")
    scene.eventually(is_ready(scene))
    assert scene.look(deployment("estate", "water")) is not None
    assert scene.data("estate", "lamps") == {"count": "3"}
    scene.patch(dependsOn=[{"name": "attic"}])
    scene.edit_file("depends/house/lamps.yaml", '"3"', '"4"')
    scene.ask()
    scene.eventually(lambda: scene.ready() == ("False", "DependencyNotReady"))
    assert scene.data("estate", "lamps") == {"count": "3"}


def test_16_a_rollback_stays_until_it_is_cleared(play: Play) -> None:
    scene = play("configsync/16-rollback.yaml")
    scene.eventually(is_ready(scene))
    second = scene.edit_file("rollback/press.yaml", "morning", "evening")
    scene.ask()
    scene.eventually(lambda: scene.is_at(second))
    scene.command("rollback")
    scene.eventually(lambda: scene.data("print", "press") == {"edition": "morning"})
    scene.eventually(is_ready(scene, "RolledBack"))
    assert scene.status()["rollback"]["to"] == scene.commit
    scene.command("rollback", "--clear")
    scene.eventually(lambda: scene.data("print", "press") == {"edition": "evening"})


def test_17_a_revision_that_does_not_become_healthy_makes_way(play: Play) -> None:
    scene = play("configsync/17-failure-policy.yaml")
    scene.eventually(is_ready(scene))
    scene.edit_file("failure/engine.yaml", "replicas: 0", "replicas: 1")
    scene.ask()
    scene.eventually(lambda: scene.ready() == ("False", "RolledBackOnFailure"))
    scene.eventually(lambda: (scene.look(deployment("works", "engine")) or {})["spec"]["replicas"] == 0)


def test_18_fields_are_left_to_others(play: Play) -> None:
    scene = play("configsync/18-ignore-differences.yaml")
    scene.eventually(is_ready(scene))
    scene.apply({**deployment("pottery", "kiln"), "spec": {"replicas": 2}}, "autoscaler")
    commit = scene.edit_file("ignore/kiln.yaml", "kiln:1", "kiln:2")
    scene.ask()
    scene.eventually(lambda: scene.is_at(commit))
    spec = (scene.look(deployment("pottery", "kiln")) or {})["spec"]
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["containers"][0]["image"].endswith("kiln:2")


def test_19_a_dry_run_says_what_would_be_done(play: Play) -> None:
    scene = play("configsync/19-dry-run.yaml")
    scene.eventually(lambda: scene.ready() == ("False", "DryRun"))
    (line,) = scene.status()["plan"]
    assert (line.split()[0], line.split()[-1]) == ("create", "sketch/proof")
    assert scene.data("sketch", "proof") is None


def test_20_another_cluster_is_written_to(play: Play, sandbox: Sandbox) -> None:
    remote = Remote(sandbox)
    remote.allow("namespaces", "configmaps", "secrets")
    sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": "sea-north"}})
    scene = play("configsync/20-remote-cluster.yaml")
    body = {"metadata": {"name": "island"}, "data": dict(remote.secret().data or {})}
    sandbox.request("POST", "/api/v1/namespaces/sea/secrets", body)
    scene.eventually(is_ready(scene))
    assert scene.data("sea-north", "buoy") == {"light": "green"}
    assert [target["clusterName"] for target in scene.targets()] == ["island"]
    scene.delete_sync()
    sandbox.request("DELETE", "/api/v1/namespaces/sea-north")


def test_21_a_repository_can_do_what_its_account_may(play: Play) -> None:
    scene = play("configsync/21-as-a-service-account.yaml")
    scene.eventually(lambda: scene.ready() == ("False", "Forbidden"))
    assert scene.data("berth", "quay") == {"berths": "2"}
    assert scene.data("kube-public", "crane") is None
    (failed,) = (target for target in scene.targets() if target["status"] == "Failed")
    assert 'cannot create resource "configmaps"' in failed["message"]


def test_22_the_kinds_of_tekton_come_with_their_definitions(play: Play) -> None:
    scene = play("configsync/22-tekton.yaml", tekton())
    scene.eventually(is_ready(scene))
    for kind, name in (("Task", "compile"), ("Pipeline", "build")):
        metadata = {"namespace": "factory", "name": name}
        assert scene.look({"apiVersion": "tekton.dev/v1", "kind": kind, "metadata": metadata}) is not None


def test_23_what_runs_already_is_taken_over_and_given_back(play: Play) -> None:
    scene = play("configsync/23-take-over.yaml")
    scene.eventually(is_ready(scene))
    scene.eventually(lambda: is_seen(anvil(scene)))
    before = anvil(scene)["metadata"]
    assert OWNER_LABEL in before["labels"]
    assert before["labels"]["made-by"] == "hand"
    assert before["annotations"][ROLLOUTS] == "1"
    scene.delete_sync()
    scene.eventually(lambda: is_seen(anvil(scene)))
    after = anvil(scene)["metadata"]
    assert after["uid"] == before["uid"]
    assert OWNER_LABEL not in after["labels"]
    assert after["annotations"][ROLLOUTS] == "1"


def test_24_one_wrong_field_keeps_a_commit_back(play: Play) -> None:
    scene = play("configsync/24-validation.yaml")
    scene.eventually(is_ready(scene))
    assert scene.data("lock", "sluice") == {"level": "low"}
    text = scene.text("validation/sluice.yaml")
    scene.push({"validation/sluice.yaml": text.replace("low", "high").replace("ports", "prots")})
    scene.ask()
    scene.eventually(lambda: scene.ready() == ("False", "InvalidManifest"))
    (ready,) = (one for one in scene.status()["conditions"] if one["type"] == "Ready")
    assert (
        "validation/sluice.yaml:15: Service lock/sluice: spec.prots: unknown field: did you mean ports?"
        in ready["message"]
    )
    assert scene.data("lock", "sluice") == {"level": "low"}


def anvil(scene: GitScene) -> dict[str, Any]:
    return scene.look(deployment("forge", "anvil")) or {}


def is_seen(live: dict[str, Any]) -> bool:
    """Whether its controller has dealt with a Deployment as it is now."""
    return live.get("status", {}).get("observedGeneration") == live["metadata"]["generation"]
