"""The Helm chart says what `syncline manifests` says, and its values do what they say."""

import argparse
import json
import re
from typing import Any

import pytest
import yaml
from tests.deploy.chart import (
    BARE,
    CHART,
    FULL,
    STRATEGY,
    HelmError,
    Values,
    arguments,
    find,
    helm,
    render,
    sorted_ports,
    stripped,
)

from syncline import deploy
from syncline.api.kinds import ALL_KINDS
from syncline.cli import run
from syncline.core.profiles import PROFILES, READ, WRITE
from syncline.deploy.chart.values import VALUES
from syncline.deploy.rights import AS_SHIPPED

TEMPLATES = "".join(path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").glob("*")))
# Flags without a value of their own: for development (`extraArgs` takes them), or for operators outside of a pod.
WITHOUT_VALUE = {
    "--help",
    "--kubeconfig",
    "--context",
    "--namespace",
    "--as-installed",
    "--admission-url",
    "--allow-insecure-metrics",
    "--allow-unchecked-authors",
    "--allow-loopback",
    "--allow-insecure-git",
    "--allow-unconfined-builds",
}


def named(manifests: list[deploy.Manifest]) -> dict[tuple[str, str], deploy.Manifest]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    assert len(found) == len(manifests)
    return found


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser()
    run.register(root.add_subparsers())
    return root


def flags() -> set[str]:
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {name for action in commands.choices["run"]._actions for name in action.option_strings if name != "-h"}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_chart_has_the_same_objects_as_the_manifests(profile: Any) -> None:
    kinds = ("configmapsyncs", "configsyncs") if profile == "none" else AS_SHIPPED.tenant_kinds
    choice = deploy.Choice(profile=profile, tenant_kinds=kinds)
    expected = [sorted_ports(each) for each in deploy.everything(choice=choice) if each["kind"] != "Namespace"]
    chosen = "all" if kinds == AS_SHIPPED.tenant_kinds else list(kinds)
    rendered = named([stripped(each) for each in render({"rights": {"profile": profile, "tenantKinds": chosen}})])
    assert rendered == named(expected)


def test_no_kind_of_syncline_for_tenants() -> None:
    expected = deploy.rbac(deploy.Choice(profile="none", tenant_kinds=()))
    role = find(render(BARE), "ClusterRole", "syncline-edit")
    assert stripped(role) == find(expected, "ClusterRole", "syncline-edit")


def test_the_chart_can_be_in_any_namespace() -> None:
    manifests = render(namespace="elsewhere")
    namespaces = {each["metadata"].get("namespace", "elsewhere") for each in manifests}
    assert deploy.NAMESPACE not in json.dumps([each for each in manifests if "CustomResource" not in each["kind"]])
    subjects = {subject["namespace"] for each in manifests for subject in each.get("subjects", ())}
    assert namespaces == subjects == {"elsewhere"}


def test_every_flag_of_the_operator_is_a_value_or_needs_none() -> None:
    given = {argument for argument in arguments(render(FULL)) if argument.startswith("--")}
    assert flags() - WITHOUT_VALUE <= given
    assert given <= flags()


@pytest.mark.parametrize("values", [{}, FULL, BARE], ids=["default", "full", "bare"])
def test_the_operator_understands_the_flags_of_the_chart(values: Values) -> None:
    manifests = render(values)
    given = parser().parse_args(arguments(manifests))
    assert given.git_cache == "/var/cache/syncline/git"
    if values is FULL:
        assert given.protect_namespaces == "infra-*"
        assert given.webhook_secret_file == "/etc/syncline/webhooks/token"


def test_what_is_off_leaves_no_trace() -> None:
    manifests = render(BARE)
    assert {each["kind"] for each in manifests}.isdisjoint(
        {
            "CustomResourceDefinition",
            "MutatingWebhookConfiguration",
            "Service",
            "NetworkPolicy",
            "Ingress",
            "HTTPRoute",
            "PodDisruptionBudget",
        }
    )
    (container,) = find(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["health"]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["cache", "tmp"]
    assert not [argument for argument in arguments(manifests) if argument.startswith("--webhook")]


def test_extra_rights_are_one_role_for_each_resource() -> None:
    manifests = render(FULL)
    rules = {
        each["metadata"]["name"]: each["rules"]
        for each in manifests
        if each["kind"] == "ClusterRole" and each["metadata"]["name"].startswith(("syncline-write-", "syncline-read-"))
    }
    assert rules == {
        "syncline-write-limitranges": [{"apiGroups": [""], "resources": ["limitranges"], "verbs": list(WRITE)}],
        "syncline-write-widgets.example.com": [
            {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": list(WRITE)}
        ],
        "syncline-read-leases.coordination.k8s.io": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(READ)}
        ],
    }
    role = find(manifests, "ClusterRole", "syncline-write-limitranges")
    assert role["metadata"]["labels"]["syncline.dev/aggregate-to-operator"] == "true"


def test_crds_stay_when_the_release_is_removed() -> None:
    crds = [each for each in render() if each["kind"] == "CustomResourceDefinition"]
    assert len(crds) == len(ALL_KINDS)
    assert {each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in crds} == {"keep"}


def test_only_the_role_that_the_control_plane_writes_stays_of_all_roles() -> None:
    kept = [each for each in render() if "helm.sh/resource-policy" in each["metadata"].get("annotations", {})]
    assert [each["metadata"]["name"] for each in kept if each["kind"] != "CustomResourceDefinition"] == ["syncline"]


def test_servers_have_own_certificates_those_of_a_secret_or_of_cert_manager() -> None:
    manifests = render(FULL, namespace="elsewhere")
    volumes = find(manifests, "Deployment")["spec"]["template"]["spec"]["volumes"]
    secrets = {each["name"]: each["secret"]["secretName"] for each in volumes if "secret" in each}
    assert secrets == {
        "metrics-certificate": "syncline-metrics-tls",
        "depot-certificate": "depot",
        "admission-certificate": "syncline-admission-tls",
        "webhook-secret": "webhooks",
    }
    certificate = find(manifests, "Certificate", "syncline-admission")["spec"]
    assert certificate["secretName"] == "syncline-admission-tls"
    assert "syncline-admission.elsewhere.svc" in certificate["dnsNames"]
    assert sorted(each["metadata"]["name"] for each in manifests if each["kind"] == "Certificate") == [
        "syncline-admission",
        "syncline-metrics",
    ]
    assert not any("secret" in each for each in find(render(), "Deployment")["spec"]["template"]["spec"]["volumes"])


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("https://depot.example.com:8444", {"dnsNames": ["depot.example.com"]}),
        ("https://10.0.0.7", {"ipAddresses": ["10.0.0.7"]}),
        ("https://[fd00::7]:8444", {"ipAddresses": ["fd00::7"]}),
    ],
)
def test_the_certificate_of_the_depot_covers_the_address_that_agents_are_told(
    url: str, names: dict[str, list[str]]
) -> None:
    inside = [f"syncline-depot{suffix}" for suffix in ("", f".{deploy.NAMESPACE}", f".{deploy.NAMESPACE}.svc")]
    manifests = render({"depot": {"url": url, "certificate": {"issuerRef": {"name": "internal"}}}})
    certificate = find(manifests, "Certificate", "syncline-depot")["spec"]
    expected = {"dnsNames": [*inside, *names.get("dnsNames", [])], "ipAddresses": names.get("ipAddresses")}
    assert {name: certificate.get(name) for name in expected} == expected


def test_the_webhook_is_of_the_namespace_of_the_release_and_not_for_it() -> None:
    (webhook,) = find(render(namespace="elsewhere"), "MutatingWebhookConfiguration", "syncline-injection")["webhooks"]
    assert webhook["clientConfig"] == {"service": {"namespace": "elsewhere", "name": "syncline-admission", "port": 443}}
    (excluded,) = webhook["namespaceSelector"]["matchExpressions"]
    assert "elsewhere" in excluded["values"]
    assert deploy.NAMESPACE not in excluded["values"]


def test_an_image_by_digest_has_no_tag() -> None:
    digest = "sha256:" + "0" * 64
    (container,) = find(render({"image": {"digest": digest}}), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"syncline@{digest}"


def test_spread_constraints_select_the_operator() -> None:
    (constraint,) = find(render(FULL), "Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": "syncline"}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"imagee": {"tag": "1"}}, "'imagee' not allowed"),
        ({"image": {"tagg": "1"}}, "'tagg' not allowed"),
        ({"rights": {"profile": "everything"}}, "must be one of 'none', 'config', 'workloads', 'admin'"),
        ({"rights": {"tenantKinds": ["configsync"]}}, "/rights/tenantKinds"),
        ({"replicas": "two"}, "/replicas"),
        ({"replicas": 2, "leaderElection": False}, "set leaderElection to true"),
        ({"webhooks": {"ingress": {"enabled": True}}}, "set webhooks.ingress.host"),
        ({"webhooks": {"httpRoute": {"enabled": True}}}, "set webhooks.httpRoute.parentRefs"),
        ({"webhooks": {"enabled": False, "ingress": {"enabled": True, "host": "a"}}}, "set webhooks.enabled to true"),
        ({"metrics": {"enabled": False, "serviceMonitor": {"enabled": True}}}, "set metrics.enabled to true"),
        ({"metrics": {"certificate": {"issuerRef": {"kind": "Issuer"}}}}, "missing property 'name'"),
        ({"metrics": {"readers": [{"namespace": "a", "name": ""}]}}, "/metrics/readers/0/name"),
        ({"imagePullSecrets": [{}]}, "missing property 'name'"),
        ({"podDisruptionBudget": {"maxUnavailable": "some"}}, "/podDisruptionBudget/maxUnavailable"),
        ({"rights": {"write": ["widgets.example.com", "widgets.example.com"]}}, "/rights/write"),
        ({"watchNamespaces": [""]}, "/watchNamespaces/0"),
        ({"depot": {"url": "depot.example.com"}}, "/depot/url"),
        ({"webhooks": {"secret": {"key": "a/b"}}}, "/webhooks/secret/key"),
        ({"image": None}, "missing property 'image'"),
        ({"image": {"repository": None}}, "missing property 'repository'"),
        ({"leaderElection": None}, "missing property 'leaderElection'"),
        ({"networkPolicy": {"egress": None}}, "missing property 'egress'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(values: Values, message: str) -> None:
    with pytest.raises(HelmError, match=re.escape(message)):
        render(values)


def test_null_removes_what_a_template_can_do_without() -> None:
    nothing: Values = {"labels": None, "podLabels": None, "podAnnotations": None, "resources": None, "extraEnv": None}
    (container,) = find(render(nothing), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert not container["resources"]


def test_labels_of_the_chart_are_not_replaced_and_no_key_is_there_twice() -> None:
    own = {"app.kubernetes.io/name": "mine", "team": "a"}
    monitors = {name: {"enabled": True, "labels": {"team": "b"}} for name in ("serviceMonitor", "prometheusRule")}
    values: Values = {
        "labels": own,
        "podLabels": own,
        "podAnnotations": {"syncline.dev/rights": "mine"},
        "metrics": monitors,
    }
    rendered = render(values)
    for kind in ("Deployment", "ServiceMonitor", "PrometheusRule"):
        labels = find(rendered, kind)["metadata"]["labels"]
        assert (labels["app.kubernetes.io/name"], labels["team"]) == ("syncline", "a")
    pod = find(rendered, "Deployment")["spec"]["template"]["metadata"]
    assert pod["labels"] == {"app.kubernetes.io/name": "syncline", "app.kubernetes.io/part-of": "syncline", "team": "a"}
    assert pod["annotations"] == {"syncline.dev/rights": "config"}
    text = helm("template", "syncline", CHART, values=values)
    documents = [yaml.compose(each) for each in text.split("\n---\n") if "team:" in each]
    assert documents
    assert [repeated for each in documents for repeated in repeated_keys(each)] == []


def repeated_keys(node: yaml.Node | None) -> list[str]:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        below = [found for _, value in node.value for found in repeated_keys(value)]
        return [key for key in keys if keys.count(key) > 1] + below
    if isinstance(node, yaml.SequenceNode):
        return [found for value in node.value for found in repeated_keys(value)]
    return []


def test_names_that_look_like_numbers_are_texts() -> None:
    secret = {"certificate": {"secretName": "789"}}
    values: Values = {
        "priorityClassName": "12",
        "depot": secret,
        "metrics": {**secret, "serviceMonitor": {"enabled": True}},
    }
    text = helm("template", "123", CHART, "--namespace", "456", values=values)
    rendered = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    deployment = find(rendered, "Deployment")
    assert deployment["metadata"]["namespace"] == "456"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/instance"] == "123"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "12"
    assert [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each] == ["789", "789"]
    assert find(rendered, "ServiceMonitor")["spec"]["namespaceSelector"] == {"matchNames": ["456"]}


def test_without_an_election_the_former_pod_ends_before_the_next_one_starts() -> None:
    assert find(render({"leaderElection": False}), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert find(render(), "Deployment")["spec"]["strategy"] == STRATEGY


def test_a_spread_constraint_keeps_a_selector_of_its_own() -> None:
    own = {
        "maxSkew": 1,
        "topologyKey": "a",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"b": "c"}},
    }
    spec = find(render({"topologySpreadConstraints": [own]}), "Deployment")["spec"]["template"]["spec"]
    assert spec["topologySpreadConstraints"] == [own]


def test_series_keep_the_namespace_that_they_are_about() -> None:
    (endpoint,) = find(render(FULL), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["honorLabels"]


def test_the_linter_is_content() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_a_chart_that_depends_on_this_one_can_switch_it_off_by_a_condition() -> None:
    assert len(render({"enabled": True, "global": {"any": "thing"}})) == len(render())


def test_every_value_is_used_by_a_template() -> None:
    # These are for charts that depend on this one.
    paths = [value.path for value in VALUES if value.path not in {"enabled", "global"}]
    assert [path for path in paths if not is_used(path)] == []


def is_used(path: str) -> bool:
    parents, _, last = path.rpartition(".")
    scoped = f"with .Values.{parents} " in TEMPLATES and re.search(rf"\.{last}\b", TEMPLATES) is not None
    certificate = parents.endswith(".certificate") and f'"{parents.partition(".")[0]}"' in TEMPLATES
    return f".Values.{path}" in TEMPLATES or scoped or certificate


def test_every_value_of_a_template_exists() -> None:
    paths = {value.path for value in VALUES}
    known = {path[:end] for path in paths for end in (*(m.start() for m in re.finditer(r"\.", path)), len(path))}
    used = set(re.findall(r"\.Values\.([\w.]*\w)", TEMPLATES))
    below = {path for path in used if path not in known and not any(path.startswith(f"{each}.") for each in paths)}
    assert below == set()


def test_the_defaults_are_valid_and_complete() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert defaults.keys() == schema["properties"].keys()
    for value in VALUES:
        found: Any = defaults
        for key in value.path.split("."):
            found = found[key]
        assert found == value.default


def test_alerts_are_about_metrics_that_exist() -> None:
    documented = (CHART.parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    rules = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    metrics = {name for rule in rules for name in re.findall(r"syncline_\w+", rule["expr"])}
    assert len(metrics) >= len(rules)
    assert {name for name in metrics if f"`{name}`" not in documented} == set()
