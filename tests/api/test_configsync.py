"""ConfigSync on a real API server: what it takes, what it refuses, and with which words."""

from typing import Any

import msgspec
import pytest
from tests.api.trial import Bad, Spec, create, report, stored, table

from syncline.api.common import Condition, HistoryEntry, TargetCounts, TargetStatus
from syncline.api.configsync import ConfigSync, ConfigSyncStatus, EnvironmentStatus, HeldRollback, SourceRevision
from syncline.api.connection import ClusterConnection, SecretKeyRef, WrittenCluster
from syncline.api.kinds import CONFIG_SYNC
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NOW = "2026-01-02T03:04:05Z"
COMMIT = "4f7c1b1d2a3e4f5061728394a5b6c7d8e9f00112"
HTTPS = "https://git.example.com/team/config.git"
SSH = "ssh://git@git.example.com:2222/team/config.git"
SCP = "git@git.example.com:team/config.git"
SECRET = {"secretRef": {"name": "login"}}
WITH_SSH = {"type": "SSH", **SECRET}
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "prod"}}
AUTHORITY = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "prod"},
    "server": "https://api.example.com",
    "caData": "A" * 32768,
}
BY_LABELS = {"type": "SyncTarget", "selector": {"matchLabels": {"stage": "prod"}}}
SHAPES = {"deep": {"list": [1, 2.5, True, None, {"text": "x"}]}, "empty": {}}


def spec(**changes: Any) -> Spec:
    """Follow a repository, with some fields different; those that are None are left out."""
    whole = {"source": {"git": {"repo": HTTPS}}, **changes}
    return {name: value for name, value in whole.items() if value is not None}


def git(**changes: Any) -> Spec:
    return spec(source={"git": {"repo": HTTPS, **changes}})


def sources(*names: str, **changes: Any) -> Spec:
    several = [{"name": name, "git": {"repo": HTTPS}} for name in names]
    return spec(source=None, sources=several, **changes)


def environments(*several: Spec, **changes: Any) -> Spec:
    return spec(environments=list(several), **changes)


def target(**changes: Any) -> Spec:
    return spec(targets=[{"type": "ConfigMap", "name": "app", **changes}])


def ignoring(**changes: Any) -> Spec:
    return spec(ignoreDifferences=[{"paths": ["/spec/replicas"], **changes}])


GOOD: dict[str, Spec] = {
    "a repository": spec(),
    "the seed's example": {
        "source": {"git": {"repo": HTTPS, "path": "config/app.yaml", "revision": "main"}},
        "targets": [{"namespace": "default", "type": "ConfigMap", "name": "app-config"}],
        "refreshInterval": "10m",
    },
    "a repository over ssh": git(repo=SSH, auth=WITH_SSH),
    "a repository as scp writes it": git(repo=SCP, auth=WITH_SSH),
    "a repository as scp writes it, from the root": git(
        repo="me_2@host:/srv/a b.git".replace(" ", "%20"), auth=WITH_SSH
    ),
    "a repository over ssh without a user": git(repo="ssh://git.example.com/config", auth=WITH_SSH),
    "a repository over http, for development": git(repo="http://127.0.0.1:8080/config.git"),
    "a repository at an address": git(repo="https://[2001:db8::1]:8443/config.git"),
    "a token": git(auth={"type": "Token", **SECRET}),
    "a password": git(auth={"type": "Basic", **SECRET}, caSecretRef={"name": "ca"}, proxySecretRef={"name": "proxy"}),
    "an app of GitHub": git(auth={"type": "GitHubApp", **SECRET}),
    "signed commits, with submodules": git(verify=SECRET, submodules=True),
    **{
        f"the path {path}": git(path=path)
        for path in (".", "./a", "a/b/", "a/*.yaml", ".hidden", "...", "..a/b..", "-")
    },
    **{
        f"the revision {revision}": git(revision=revision)
        for revision in (
            "feature/a-b",
            "v1.2.3",
            "refs/pull/1/head",
            "^1.4",
            "~1.2",
            ">=1.2.0 <2.0.0",
            "1.x",
            "*",
            COMMIT,
        )
    },
    "a ConfigMap": spec(source={"configMapRef": {"name": "files"}}),
    "a Secret": spec(source={"secretRef": {"name": "files"}}),
    "several sources": spec(
        source=None,
        sources=[
            {"name": "base", "git": {"repo": HTTPS}},
            {"name": "ours", "git": {"repo": SSH, "auth": WITH_SSH}},
            {"name": "extra", "configMapRef": {"name": "files"}},
        ],
    ),
    "a chart": spec(
        build={
            "type": "Helm",
            "helm": {
                "releaseName": "web",
                "namespace": "team-a",
                "values": SHAPES,
                "valuesFrom": [
                    {"kind": "Secret", "name": "values", "key": "prod.yaml", "optional": True},
                    {"name": "v"},
                ],
                "includeCRDs": False,
            },
        }
    ),
    "jsonnet": spec(
        build={
            "type": "Jsonnet",
            "jsonnet": {
                "entry": "env/prod.jsonnet",
                "tlas": SHAPES,
                "extVars": SHAPES,
                "libraryPaths": ["vendor", "lib"],
            },
        }
    ),
    "templates": spec(template={"enabled": True, "values": SHAPES, "valuesFrom": [{"name": "values"}]}),
    "templates that are off": spec(template={"enabled": False}),
    "encrypted files": spec(decryption={"provider": "SOPS", **SECRET}),
    "a file as data": target(type="secret", key="app.yaml", values={"a": 1}),
    "a kind of a group": target(type="deployment.apps", overrides={"spec": {"replicas": None}}, namespace="team-a"),
    "environments": environments(
        {"name": "dev", "namespace": "dev", "values": SHAPES},
        {"name": "prod", "namespace": "prod", "path": "prod", "revision": "v1", "rollback": {"to": "Previous"}},
    ),
    "environments of several sources": sources("a", environments=[{"name": "dev", "namespace": "dev"}]),
    "other clusters": spec(remoteClusters=[{"clusterName": "eu", "connection": KUBECONFIG}, {"connection": BY_LABELS}]),
    "a rollback to the previous commit": spec(rollback={"to": "Previous"}),
    "a rollback to a commit": spec(rollback={"to": COMMIT}),
    "a rollback to the beginning of a commit": spec(rollback={"to": COMMIT[:7]}),
    "a return when health fails": spec(wait=True, timeout="90s", failurePolicy="Rollback"),
    "fields of an autoscaler": ignoring(group="apps", kind="Deploy*", name="web-?"),
    "fields of anything": ignoring(paths=["/spec/template/spec/containers/*/image", "/metadata/annotations/a~1b"]),
    "the rest": spec(
        refreshInterval="1h30m",
        dependsOn=[{"name": "base"}, {"name": "crds", "namespace": "platform"}],
        dependentNamespaces=["team-*", "apps"],
        driftPolicy="Report",
        dryRun=True,
        webhook={"secretRef": {"name": "hook"}},
        prune=False,
        suspend=True,
        serviceAccountName="robot",
        resourceManagementPolicy="Adopt",
        deletionPolicy="Orphan",
    ),
}

ONE_SOURCE = "write exactly one of source (one source) and sources"
ONE_ORIGIN = "a source needs exactly one of git, configMapRef and secretRef"
URL = "write the URL of a repository, such as https://git.example.com/team/config.git"
NO_CREDENTIALS = "the URL contains credentials: move them to a Secret"
PATH = "write a path within the repository"
REVISION = "write a branch, a tag, a full ref"
NEEDS_SSH = "a repository at ssh:// or git@host:path needs auth with type: SSH"
FOR_SSH = "auth with type: SSH needs a repository at ssh:// or git@host:path"
FOR_HTTPS = "caSecretRef and proxySecretRef need a repository at https://: remove them"
OF_GIT = "path, revision and rollback of an environment need source.git"
OF_ENVIRONMENT = "each environment has its own rollback"
TO_COMMIT = "rollback needs source.git: remove rollback"
COMMITS = "write Previous, or a commit in 7 to 64 hexadecimal digits"
NO_HEALTH = "failurePolicy: Rollback needs the health of the applied objects: write wait: true"
NO_COMMIT = "failurePolicy: Rollback needs source.git"
INTERVAL = "write a refreshInterval of at most 24h"
TIMEOUT = "write a timeout from 1s to 24h"
POINTER = "write a JSON pointer, such as /spec/replicas"
DURATION = "write a duration"

RULES: dict[str, Bad] = {
    "no source": (spec(source=None), "spec", ONE_SOURCE),
    "no sources": (spec(source=None, sources=[]), "spec", ONE_SOURCE),
    "a source and sources": ({**sources("a"), **spec()}, "spec", ONE_SOURCE),
    "an empty source": (spec(source={}), "spec.source", ONE_ORIGIN),
    "a source of two kinds": (
        spec(source={"git": {"repo": HTTPS}, "secretRef": {"name": "a"}}),
        "spec.source",
        ONE_ORIGIN,
    ),
    "an empty one of several sources": (spec(source=None, sources=[{"name": "a"}]), "spec.sources[0]", ONE_ORIGIN),
    **{
        f"the repository {repo!r}": (git(repo=repo), "spec.source.git.repo", URL)
        for repo in (
            "git@git.example.com/team/config.git",
            "git@git.example.com:team/config.git?a=b",
            "git@git.example.com:team:config.git",
            "git@git.example.com:-x",
            "-oProxyCommand=id@git.example.com:team/config.git",
            "git.example.com:team/config.git",
            "file:///srv/config.git",
            "ext::sh -c id",
            "--upload-pack=id",
            "git.example.com/team/config.git",
            "https://git.example.com",
            "https://-o/team/config.git",
            "https://git.example.com/team/config.git?a=b",
            "https://git.example.com/team/config.git#main",
            "https://git.example.com/a b.git",
            "https://git.example.com/a.git\n",
        )
    },
    "a token in the URL": (git(repo="https://t0ken@git.example.com/a.git"), "spec.source.git.repo", NO_CREDENTIALS),
    "a password in the URL": (git(repo="https://me:it@git.example.com/a.git"), "spec.source.git.repo", NO_CREDENTIALS),
    "a password for ssh": (
        git(repo="ssh://git:it@git.example.com/a.git", auth=WITH_SSH),
        "spec.source.git.repo",
        NO_CREDENTIALS,
    ),
    **{
        f"the path {path!r}": (git(path=path), "spec.source.git.path", PATH)
        for path in ("/etc", "..", "../a", "a/../b", "a/..", "a//b", "./../a", "a\nb")
    },
    **{
        f"the revision {revision!r}": (git(revision=revision), "spec.source.git.revision", REVISION)
        for revision in ("--all", " main", "a:b", "a\\b", "a\nb")
    },
    "ssh without a key": (git(repo=SSH), "spec.source.git.auth", NEEDS_SSH),
    "ssh with a token": (git(repo=SSH, auth={"type": "Token", **SECRET}), "spec.source.git.auth", NEEDS_SSH),
    "scp without a key": (git(repo=SCP), "spec.source.git.auth", NEEDS_SSH),
    "scp with a token": (git(repo=SCP, auth={"type": "Token", **SECRET}), "spec.source.git.auth", NEEDS_SSH),
    "scp with certificates": (git(repo=SCP, auth=WITH_SSH, caSecretRef={"name": "ca"}), "spec.source.git", FOR_HTTPS),
    "https with a key for ssh": (git(auth=WITH_SSH), "spec.source.git.auth.type", FOR_SSH),
    "ssh with certificates": (git(repo=SSH, auth=WITH_SSH, caSecretRef={"name": "ca"}), "spec.source.git", FOR_HTTPS),
    "ssh with a proxy": (git(repo=SSH, auth=WITH_SSH, proxySecretRef={"name": "p"}), "spec.source.git", FOR_HTTPS),
    "two sources of one name": (sources("a", "b", "a"), "spec.sources", "two sources have the same name"),
    "a source with a path for a name": (
        spec(source=None, sources=[{"name": "../a", "git": {"repo": HTTPS}}]),
        "spec.sources[0].name",
        "write the name of a folder",
    ),
    "two environments of one name": (
        environments({"name": "dev"}, {"name": "prod"}, {"name": "dev"}),
        "spec.environments",
        "two environments have the same name",
    ),
    "an environment in capitals": (
        environments({"name": "Prod"}),
        "spec.environments[0].name",
        "write the name of an environment",
    ),
    "a revision of several sources": (
        sources("a", environments=[{"name": "dev", "revision": "v1"}]),
        "spec.environments",
        OF_GIT,
    ),
    "a path in a ConfigMap": (
        environments({"name": "dev", "path": "a"}, source={"configMapRef": {"name": "a"}}),
        "spec.environments",
        OF_GIT,
    ),
    "a rollback of all environments": (
        environments({"name": "dev"}, rollback={"to": "Previous"}),
        "spec.rollback",
        OF_ENVIRONMENT,
    ),
    "a rollback of several sources": (sources("a", rollback={"to": COMMIT}), "spec.rollback", TO_COMMIT),
    "a rollback of a ConfigMap": (
        spec(source={"configMapRef": {"name": "a"}}, rollback={"to": "Previous"}),
        "spec.rollback",
        TO_COMMIT,
    ),
    **{
        f"a rollback to {to!r}": (spec(rollback={"to": to}), "spec.rollback.to", COMMITS)
        for to in ("previous", "main", "HEAD~1", COMMIT[:6], COMMIT.upper())
    },
    "an environment's rollback to a branch": (
        environments({"name": "dev", "rollback": {"to": "main"}}),
        "spec.environments[0].rollback.to",
        COMMITS,
    ),
    "a return without waiting": (spec(failurePolicy="Rollback"), "spec.failurePolicy", NO_HEALTH),
    "a return of several sources": (sources("a", wait=True, failurePolicy="Rollback"), "spec.failurePolicy", NO_COMMIT),
    "an interval of nothing": (spec(refreshInterval="0s"), "spec.refreshInterval", INTERVAL),
    "an interval of days": (spec(refreshInterval="25h"), "spec.refreshInterval", INTERVAL),
    "an interval without a unit": (spec(refreshInterval="10"), "spec.refreshInterval", DURATION),
    "a timeout of nothing": (spec(timeout="100ms"), "spec.timeout", TIMEOUT),
    "a timeout of days": (spec(timeout="1441m"), "spec.timeout", TIMEOUT),
    "a chart that is kustomized": (
        spec(build={"type": "Kustomize", "helm": {}}),
        "spec.build.helm",
        "helm needs type: Helm or Auto",
    ),
    "jsonnet that is plain": (
        spec(build={"type": "Plain", "jsonnet": {}}),
        "spec.build.jsonnet",
        "jsonnet needs type: Jsonnet or Auto",
    ),
    "a chart and jsonnet": (spec(build={"helm": {}, "jsonnet": {}}), "spec.build", "a build has exactly one type"),
    "a release in capitals": (
        spec(build={"helm": {"releaseName": "Web"}}),
        "spec.build.helm.releaseName",
        "write the name of a release",
    ),
    "an entry outside": (spec(build={"jsonnet": {"entry": "../a"}}), "spec.build.jsonnet.entry", PATH),
    "a library outside": (
        spec(build={"jsonnet": {"libraryPaths": ["/a"]}}),
        "spec.build.jsonnet.libraryPaths[0]",
        PATH,
    ),
    "values of no template": (
        spec(template={"values": {"a": "b"}}),
        "spec.template.enabled",
        "values and valuesFrom are not used without enabled: true",
    ),
    "values for no template": (
        spec(template={"valuesFrom": [{"name": "a"}]}),
        "spec.template.enabled",
        "values and valuesFrom are not used without enabled: true",
    ),
    "a key of a Deployment": (
        target(type="Deployment", key="a"),
        "spec.targets[0].key",
        "key needs type: ConfigMap or Secret",
    ),
    "a kind with a version": (target(type="apps/v1"), "spec.targets[0].type", "write a kind, such as ConfigMap"),
    "more certificates than a status has room for": (
        spec(remoteClusters=[{"clusterName": f"c{n}", "connection": AUTHORITY} for n in range(9)]),
        "spec.remoteClusters",
        "the caData of all clusters have more than 262144 characters in total",
    ),
    "two clusters of one name": (
        spec(remoteClusters=[{"clusterName": "eu", "connection": KUBECONFIG}] * 2),
        "spec.remoteClusters",
        "two clusters have the same clusterName",
    ),
    "a pattern of kinds with a group": (
        ignoring(kind="Deployment.apps"),
        "spec.ignoreDifferences[0].kind",
        "write a kind or a glob of kinds",
    ),
    "a pattern of names with a space": (
        ignoring(name="a b"),
        "spec.ignoreDifferences[0].name",
        "write a name or a glob of names",
    ),
    "a group in capitals": (
        ignoring(group="Apps"),
        "spec.ignoreDifferences[0].group",
        "write an API group, such as apps",
    ),
    "a path with dots": (ignoring(paths=[".spec.replicas"]), "spec.ignoreDifferences[0].paths[0]", POINTER),
    "all of an object": (ignoring(paths=["/"]), "spec.ignoreDifferences[0].paths[0]", POINTER),
}
SCHEMA: dict[str, Bad] = {
    "a credential of no Secret": (git(auth={"type": "Token"}), "spec.source.git.auth.secretRef", "Required value"),
    "a credential of another namespace": (
        git(auth={"type": "Token", "secretRef": {"name": "a", "namespace": "b"}}),
        "spec.source.git.auth.secretRef.namespace",
        "unknown field",
    ),
    "an unknown credential": (
        git(auth={"type": "Kerberos", **SECRET}),
        "spec.source.git.auth.type",
        'supported values: "Basic", "GitHubApp", "SSH", "Token"',
    ),
    "an unknown build": (spec(build={"type": "Make"}), "spec.build.type", 'supported values: "Auto"'),
    "an unknown provider": (spec(decryption={"provider": "Vault", **SECRET}), "spec.decryption.provider", '"SOPS"'),
    "values that are a list": (
        spec(build={"helm": {"values": ["a"]}}),
        "spec.build.helm.values",
        "must be of type object",
    ),
    "nothing to ignore": (ignoring(paths=[]), "spec.ignoreDifferences[0].paths", "should have at least 1 items"),
    "namespaces of another cluster": (
        spec(remoteClusters=[{"clusterName": "eu", "connection": KUBECONFIG, "namespaces": ["a"]}]),
        "spec.remoteClusters[0].namespaces",
        "unknown field",
    ),
    "too many environments": (
        environments(*({"name": f"e{number}"} for number in range(21))),
        "spec.environments",
        "must have at most 20 items",
    ),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, CONFIG_SYNC, spec)
    local = msgspec.convert({"metadata": taken["metadata"], "spec": spec}, ConfigSync)
    assert msgspec.convert(taken, ConfigSync).spec == local.spec


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(sandbox: Sandbox, spec: Spec, where: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, CONFIG_SYNC, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


def test_the_server_fills_in_the_defaults(sandbox: Sandbox) -> None:
    given = spec(
        build={"helm": {"valuesFrom": [{"name": "values"}]}},
        template={},
        webhook={"secretRef": {"name": "hook"}},
        ignoreDifferences=[{"paths": ["/spec/replicas"]}],
    )
    assert create(sandbox, CONFIG_SYNC, given)["spec"] == {
        "source": {"git": {"repo": HTTPS, "path": ".", "revision": "main", "submodules": False}},
        "build": {
            "type": "Auto",
            "helm": {
                "valuesFrom": [{"kind": "ConfigMap", "name": "values", "key": "values.yaml", "optional": False}],
                "includeCRDs": True,
            },
        },
        "template": {"enabled": False},
        "webhook": {"secretRef": {"name": "hook", "key": "token"}},
        "ignoreDifferences": [{"group": "", "paths": ["/spec/replicas"]}],
        "refreshInterval": "10m",
        "validation": "Schema",
        "wait": False,
        "timeout": "5m",
        "failurePolicy": "Hold",
        "driftPolicy": "Correct",
        "dryRun": False,
        "prune": True,
        "suspend": False,
        "resourceManagementPolicy": "Sync",
        "deletionPolicy": "Delete",
    }


HISTORY = [HistoryEntry(time=NOW, revision=COMMIT, result="Synced", changes="created 2")]
ROLLBACK = HeldRollback(to=COMMIT, requested="Previous", since=NOW)
STATUS = ConfigSyncStatus(
    observed_generation=3,
    conditions=[
        Condition(type=type_, status="False", reason="Failed", last_transition_time=NOW)
        for type_ in ("Ready", "Synced", "Failed", "InvalidSource", "Healthy")
    ],
    targets=TargetCounts(desired=2, synced=1, failed=1, summary="1/2"),
    target_statuses=[TargetStatus(type="InCluster", kind="Deployment.apps", namespace="a", name="b", status="Failed")],
    history=HISTORY,
    last_handled_request="now",
    proof="91fb230a.61276cdb588dcc7c90f812767798ff68",
    source_revision=COMMIT,
    scope="scope",
    kept=["a/b"],
    written=["ConfigMap", "eu/Deployment.apps"],
    last_synced_time=NOW,
    applied_targets=1,
    revisions=[SourceRevision(name="base", revision=COMMIT)],
    inputs="digest",
    rollback=ROLLBACK,
    last_healthy_revision=COMMIT,
    environments=[
        EnvironmentStatus(
            name="prod",
            ready="True",
            message="2 objects agree",
            source_revision=COMMIT,
            revisions=[SourceRevision(name="base", revision=COMMIT)],
            inputs="digest",
            rollback=ROLLBACK,
            last_healthy_revision=COMMIT,
            history=HISTORY,
        )
    ],
    plan=["create ConfigMap team-a/web"],
    clusters=[
        WrittenCluster(
            name="eu",
            connection=ClusterConnection(type="KubeconfigSecret", kubeconfig_secret_ref=SecretKeyRef(name="prod")),
        )
    ],
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    assert all(getattr(STATUS, name) != getattr(ConfigSyncStatus(), name) for name in STATUS.__struct_fields__)
    with stored(sandbox, CONFIG_SYNC, spec()) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, ConfigSync).status == STATUS


@pytest.mark.parametrize("spec", [spec(), sources("a", "b")], ids=["one source", "several"])
def test_kubectl_get_shows_the_first_repository_and_the_outcome(sandbox: Sandbox, spec: Spec) -> None:
    with stored(sandbox, CONFIG_SYNC, spec) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Repository", "Revision", "Targets", "Ready", "Reason", "Age"]
    assert cells[1:-1] == [HTTPS, COMMIT, "1/2", "False", "Failed"]
