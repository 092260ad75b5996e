"""What others need goes first, whatever the order of the files; on the way out it goes last."""

from tests.configsync.world import GitWorld, config_map, definition, manifest
from tests.manifestsync.world import deployment_spec

_WEBHOOK = {
    "name": "nobody.example.com",
    "clientConfig": {"url": "https://hook.example.com/"},
    "rules": [{"apiGroups": ["nothing.example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def test_definitions_and_what_they_define_come_with_one_commit_and_go_in_reverse(world: GitWorld) -> None:
    kind, plural, namespace = f"{world.name.title()}Thing", f"{world.name}things", f"{world.name}-made"
    hook = world.find("ValidatingWebhookConfiguration", name=f"{world.name}.example.com")
    crd = world.find("CustomResourceDefinition", name=f"{plural}.example.com")
    made = world.find("Namespace", name=namespace)
    world.leave_behind(hook, crd, made)
    commit = world.push(
        {
            "a-hook.yaml": manifest(
                "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", hook.name, webhooks=[_WEBHOOK]
            ),
            "b-thing.yaml": manifest("example.com/v1", kind, "app", namespace, spec={"size": 1}),
            "c-app.yaml": manifest("apps/v1", "Deployment", "app", namespace, spec=deployment_spec()),
            "d-config.yaml": config_map(namespace=namespace),
            "e-kind.yaml": definition(plural, kind),
            "f-namespace.yaml": manifest("v1", "Namespace", namespace),
        }
    )
    mark = world.mark()
    sync = world.csync()
    sync.at(commit)
    thing = world.custom(kind, plural, namespace)
    assert thing.at("spec", "size") == 1
    created = [
        entry.resource for entry in world.requests(mark) if entry.verb == "create" and entry.resource != "events"
    ]
    assert created.index("namespaces") < created.index("configmaps") < created.index("deployments")
    assert created.index("customresourcedefinitions") < created.index(plural)
    assert created[-1] == "validatingwebhookconfigurations"
    world.stays_quiet(sync)
    mark = world.mark()
    with world.seeing_everything():
        sync.delete()
        sync.gone()
    deleted = dict.fromkeys(entry.resource for entry in world.requests(mark) if entry.verb == "delete" and entry.done)
    wanted = ["validatingwebhookconfigurations", plural, "deployments", "configmaps", "customresourcedefinitions"]
    assert [*deleted] == [*wanted, "namespaces"]


def test_an_object_of_a_kind_that_never_comes_fails_alone(world: GitWorld) -> None:
    world.push({"thing.yaml": manifest("example.com/v1", "Unheard", "app"), "config.yaml": config_map(colour="red")})
    sync = world.csync()
    ready = sync.becomes("KindNotServed", synced=1, failed=1)
    world.find("ConfigMap", world.home).holds_data(colour="red")
    assert "CustomResourceDefinition" in ready["message"]
    assert sync.conditions["Failed"]["status"] == "True"


def test_an_object_whose_kind_comes_later_is_applied_then(world: GitWorld) -> None:
    kind, plural = f"{world.name.title()}Later", f"{world.name}laters"
    commit = world.push({"thing.yaml": manifest("example.com/v1", kind, "app", spec={"size": 1})})
    sync = world.csync()
    sync.becomes("KindNotServed", failed=1)
    world.define(plural, kind)
    sync.at(commit)
    assert world.custom(kind, plural, world.home).at("spec", "size") == 1


def test_an_object_that_turns_out_to_be_in_no_namespace_is_applied_there(world: GitWorld) -> None:
    kind, plural = f"{world.name.title()}Wide", f"{world.name}wides"
    commit = world.push({"thing.yaml": manifest("example.com/v1", kind, world.name)})
    sync = world.csync()
    sync.becomes("KindNotServed", failed=1)
    body = definition(plural, kind)
    body["spec"]["scope"] = "Cluster"
    crd = world.find("CustomResourceDefinition", name=f"{plural}.example.com")
    crd.create(body)
    world.leave_behind(crd)
    sync.at(commit)
    thing = world.custom(kind, plural, "", world.name)
    assert thing.marked
    sync.delete()
    thing.gone()


def test_a_namespace_that_is_not_there_yet_is_waited_for(world: GitWorld) -> None:
    commit = world.push({"far.yaml": config_map(namespace=f"{world.name}-later"), "near.yaml": config_map("near")})
    sync = world.csync()
    ready = sync.becomes("NamespaceNotFound", synced=1, pending=1)
    assert f"{world.name}-later" in ready["message"]
    namespace = world.namespace("later")
    sync.at(commit)
    assert world.find("ConfigMap", namespace).marked
