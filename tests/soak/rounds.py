"""One round of coming and going: namespaces, a kind, a cluster, a SyncTarget and syncs of all kinds."""

from typing import Any
from uuid import uuid4

from tests.acting import account_of_tests, acting, empower
from tests.configmapsync.world import Json, Thing, conditions, until
from tests.fleet.world import Remote

from syncline.api.common import API_VERSION, REQUESTED_AT
from syncline.sandbox import RequestError, Sandbox

GROUP = "soak.example.com"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def allow_kinds(hub: Sandbox) -> Thing:
    """Let the operator work with the kinds that come and go."""
    role = Thing(hub, f"{_RBAC}/clusterroles", "soak")
    role.create(
        {
            "metadata": {"name": "soak", "labels": {"syncline.dev/aggregate-to-operator": "true"}},
            "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}],
        }
    )
    return role


class Round:
    """All that comes has a name of its own, and goes again."""

    def __init__(self, hub: Sandbox, far: Sandbox) -> None:
        self.hub = hub
        self.far = far
        self.name = f"r{uuid4().hex[:8]}"
        self.home = f"{self.name}-home"
        self.syncs: list[Thing] = []
        self.definition: Thing | None = None

    def play(self) -> None:
        """Let everything come, change and go."""
        self.begin()
        definition = self._definition()
        remote = Remote(self.far)
        remote.allow("*", groups=("*",))  # a namespace goes only if all that would go with it can be seen
        secret = self._credential(remote)
        target = self._sync_target()
        self._copy_config_maps()
        self._copy_things()
        self._copy_to_clusters()
        self._build()
        self._copy_workspace()
        for sync in self.syncs:
            ready(sync, "True")
        self._compete()
        self._serve_gateways()
        self._shrink()
        self.end_syncs()
        for thing in (target, secret, definition):
            thing.delete()
            thing.gone()
        self.end()

    def copy_thing_and_config_map(self) -> Thing:
        """Have a sync write objects of two kinds, one of which nobody else has."""
        self.definition = self._definition()
        refs = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "app"},
            {"apiVersion": f"{GROUP}/v1", "kind": self.kind, "name": "thing"},
        ]
        targets = {"inCluster": {"namespaces": self.targets}}
        sync = self._sync("ManifestSync", "both", sourceRefs=refs, targets=targets)
        ready(sync, "True")
        return sync

    def copy_config_map_only(self, sync: Thing) -> None:
        """Have it write only one of them, and wait until the other is in its inventory no more."""
        sync.edit(lambda body: body["spec"]["sourceRefs"].pop())
        for namespace in self.targets:
            Thing(self.hub, f"/apis/{GROUP}/v1/namespaces/{namespace}/{self.name}s", "thing").gone()
        ready(sync, "True")
        # What is left of a kind is looked at when a reconcile begins.
        sync.annotate({REQUESTED_AT: "now"})
        until(lambda: sync.read()["status"]["written"], lambda written: written == ["ConfigMap"])

    def request_and_wait(self, sync: Thing) -> None:
        """Request a reconcile, and wait for its end."""
        sync.annotate({REQUESTED_AT: "again"})
        until(lambda: sync.read()["status"].get("lastHandledRequest"), lambda handled: handled == "again")

    def begin(self) -> None:
        """Make namespaces and a source."""
        self.targets = [f"{self.name}-{number}" for number in range(3)]
        for name in (self.home, *self.targets):
            body = {"metadata": {"name": name, "labels": {"soak": self.name}}}
            self.hub.request("POST", "/api/v1/namespaces", body)
        self.hub.request("POST", f"/api/v1/namespaces/{self.home}/configmaps", config_map("app", colour="red"))

    def _definition(self) -> Thing:
        """Define a kind, and make one object of it."""
        self.kind, plural = self.name.title(), f"{self.name}s"
        definition = Thing(self.hub, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{plural}.{GROUP}")
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        definition.create(
            {
                "metadata": {"name": definition.name},
                "spec": {
                    "group": GROUP,
                    "names": {"plural": plural, "kind": self.kind},
                    "scope": "Namespaced",
                    "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
                },
            }
        )
        thing = Thing(self.hub, f"/apis/{GROUP}/v1/namespaces/{self.home}/{plural}", "thing")
        body = {"apiVersion": f"{GROUP}/v1", "kind": self.kind, "metadata": {"name": "thing"}, "spec": {"a": 1}}
        until(lambda: _created(thing, body), bool)
        return definition

    def _credential(self, remote: Remote) -> Thing:
        secret = Thing(self.hub, f"/api/v1/namespaces/{self.home}/secrets", "edge")
        data = remote.secret().data or {}
        secret.create({"metadata": {"name": "edge"}, "data": dict(data)})
        self.there = f"{self.name}-there"
        self.far.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.there}})
        return secret

    def _sync_target(self) -> Thing:
        target = Thing(self.hub, f"/apis/{API_VERSION}/namespaces/{self.home}/synctargets", "edge")
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
        metadata = {"name": "edge", "labels": {"region": "eu"}}
        target.create(
            {"apiVersion": API_VERSION, "kind": "SyncTarget", "metadata": metadata, "spec": {"connection": connection}}
        )
        return target

    def _copy_config_maps(self) -> None:
        selector = {"matchLabels": {"soak": self.name}}
        self._sync(
            "ConfigMapSync", "maps", sourceNamespace=self.home, configMapName="app",
            destinationNamespaceSelector=selector, destinationName="copy",
        )  # fmt: skip

    def _copy_things(self) -> None:
        ref = {"apiVersion": f"{GROUP}/v1", "kind": self.kind, "name": "thing"}
        self._sync("ManifestSync", "things", sourceRef=ref, targets={"inCluster": {"namespaces": self.targets}})

    def _copy_to_clusters(self) -> None:
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "app"}
        by_secret = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
        by_label = {"type": "SyncTarget", "selector": {"matchLabels": {"region": "eu"}}}
        there = {"clusterName": "edge", "connection": by_secret, "namespaces": [self.there]}
        selected = {"connection": by_label, "namespaces": [self.there]}
        self._sync("ManifestSync", "remote", sourceRef=ref, targets={"remoteClusters": [there]}, targetName="one")
        self._sync("ManifestSync", "selected", sourceRef=ref, targets={"remoteClusters": [selected]}, targetName="two")

    def build_for_missing_namespace(self) -> Thing:
        """Have a sync whose only object belongs to a namespace that does not exist."""
        manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: built\n  namespace: {self.name}-missing\n"
        self.hub.request(
            "POST", f"/api/v1/namespaces/{self.home}/configmaps", config_map("files", **{"built.yaml": manifest})
        )
        account = self._builder()
        empower(self.hub, self.home, account)
        sync = self._sync("ConfigSync", "waits", source={"configMapRef": {"name": "files"}}, serviceAccountName=account)
        ready(sync, "False", "NamespaceNotFound")
        return sync

    def _build(self) -> None:
        manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: built\ndata:\n  a: '1'\n"
        self.hub.request(
            "POST", f"/api/v1/namespaces/{self.home}/configmaps", config_map("files", **{"built.yaml": manifest})
        )
        environments = [
            {"name": name, "namespace": namespace} for name, namespace in zip("ab", self.targets, strict=False)
        ]
        source = {"configMapRef": {"name": "files"}}
        self._sync("ConfigSync", "built", source=source, environments=environments, serviceAccountName=self._builder())

    def _copy_workspace(self) -> None:
        """Have namespaces of the other cluster copied back there, under other names, and edited on both sides."""
        above = f"{self.name}-above"
        self.far.request("POST", "/api/v1/namespaces", {"metadata": {"name": above, "labels": {"soak": self.name}}})
        self.far.request("POST", f"/api/v1/namespaces/{above}/configmaps", config_map("app", colour="red"))
        by_secret = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
        self._sync(
            "WorkspaceSync", "workspace", upstream={"connection": by_secret}, downstream={"syncTargets": ["edge"]},
            resources=[{"resource": "configmaps", "direction": "Bidirectional"}],
            namespaces={"selector": {"matchLabels": {"soak": self.name}}, "mapping": {"prefix": "below-"}},
        )  # fmt: skip

    def _serve_gateways(self) -> None:
        """Have a sync for gateways whose repository does not answer."""
        repository = {"repo": "https://127.0.0.1:1/files.git", "ref": "main"}
        gateway = {"apiKeySecretRef": {"name": "api", "key": "key"}}
        ready(self._sync("IgnitionSync", "gateways", git=repository, gateway=gateway), "Unknown")

    def _builder(self) -> str:
        """Make an account that may write what is built; return its name."""
        name = "builder"
        self.hub.request("POST", f"/api/v1/namespaces/{self.home}/serviceaccounts", {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.home}],
        }
        for namespace in (self.home, *self.targets):
            self.hub.request("POST", f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)
        return name

    def _compete(self) -> None:
        """Have syncs wait for each other and for somebody else's object."""
        taken = f"/api/v1/namespaces/{self.targets[0]}/configmaps"
        self.hub.request("POST", taken, config_map("taken", by="somebody"))
        blocked = {"sourceNamespace": self.home, "configMapName": "app", "destinationNamespace": self.targets[0]}
        ready(self._sync("ConfigMapSync", "blocked", **blocked, destinationName="taken"), "False", "NotOurs")
        ready(self._sync("ConfigMapSync", "waits", **blocked, destinationName="copy"), "False", "OwnedByOther")
        missing = {**blocked, "configMapName": "missing", "destinationName": "wanted"}
        ready(self._sync("ConfigMapSync", "a-missing", **missing), "False", "SourceNotFound")
        ready(self._sync("ConfigMapSync", "b-claims", **blocked, destinationName="wanted"), "False", "ClaimedByOther")

    def _shrink(self) -> None:
        """Take targets away: by a label, by an edit, and by an environment that leaves."""
        Thing(self.hub, "/api/v1/namespaces", self.targets[2]).label(soak="no")
        Thing(self.hub, f"/api/v1/namespaces/{self.targets[2]}/configmaps", "copy").gone()
        things, built = self.syncs[1], self.syncs[4]
        things.edit(lambda body: body["spec"].update(targets={"inCluster": {"namespaces": self.targets[:1]}}))
        built.edit(lambda body: body["spec"]["environments"].pop())
        for sync in (things, built):
            ready(sync, "True")

    def end_syncs(self) -> None:
        """Delete all syncs, and wait until they are gone."""
        for sync in self.syncs:
            sync.delete()
        for sync in self.syncs:
            sync.gone()

    def end(self) -> None:
        """Delete the namespaces, and wait until they are gone; also where no operator runs that lets go of syncs."""
        for sync in self.syncs:
            sync.release()
        if self.definition is not None:
            self.definition.delete()
        for name in (self.home, *self.targets):
            Thing(self.hub, "/api/v1/namespaces", name).delete()
        for name in (self.home, *self.targets):
            Thing(self.hub, "/api/v1/namespaces", name).gone()

    def _sync(self, kind: str, name: str, **spec: Any) -> Thing:
        sync = Thing(self.hub, f"/apis/{API_VERSION}/namespaces/{self.home}/{kind.lower()}s", name)
        if account := account_of_tests():
            empower(self.hub, self.home, account)
        acts = acting(account, spec)
        sync.create({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": acts})
        self.syncs.append(sync)
        return sync


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def ready(sync: Thing, status: str, reason: str = "") -> None:
    """Wait until Ready says so of the spec as it is now."""

    def holds(body: Json) -> bool:
        found = conditions(body).get("Ready", {})
        newest = found.get("observedGeneration") == body["metadata"]["generation"]
        return newest and found.get("status") == status and reason in ("", found.get("reason"))

    until(sync.read, holds)


def _created(thing: Thing, body: Json) -> bool:
    """Whether an object could be created: a kind that was just defined takes a moment."""
    try:
        thing.create(body)
    except RequestError as error:
        if error.status not in (404, 409):
            raise
        return error.status == 409
    return True
