"""Downstream namespaces: their names, who gets a name, and the address of a workspace."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick, thorough

from syncline.core.namespace_mapping import (
    NamespaceMappingError,
    NamespaceRule,
    SharedObject,
    UpstreamNamespace,
    Workspace,
    WorkspaceError,
    check_workspace,
    downstream_namespace,
    resolve_namespaces,
    resolve_objects,
    server_workspace,
    workspace_server,
)

TEAM = Workspace("root:org:team", "team", "2x7k")
SHOP = UpstreamNamespace("shop", TEAM)
SAME = NamespaceRule()
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (SAME, "shop"),
        (NamespaceRule(prefix="team-"), "team-shop"),
        (NamespaceRule(template="{{ workspace.name }}-{{ namespace }}"), "team-shop"),
        (NamespaceRule(template="{{ workspace.path }}--{{ workspace.cluster }}"), "root-org-team--2x7k"),
        (NamespaceRule(fixed="one"), "one"),
    ],
)
def test_the_rule_names_the_namespace(rule: NamespaceRule, name: str) -> None:
    assert downstream_namespace(rule, SHOP) == name


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (NamespaceRule(template="{{ namespace | lower }}"), "namespace, workspace.cluster, workspace.name"),
        (NamespaceRule(template="{{ secret }}"), "is no variable here"),
        (NamespaceRule(template="Team-{{ namespace }}"), "not a DNS label"),
        (NamespaceRule(template="{{ namespace }}-"), "not a DNS label"),
        (NamespaceRule(template="a/{{ namespace }}"), "not a DNS label"),
        (NamespaceRule(prefix="-"), "not a DNS label"),
        (NamespaceRule(fixed="../kube-system"), "not a DNS label"),
    ],
)
def test_a_name_that_cannot_be_is_refused(rule: NamespaceRule, words: str) -> None:
    with pytest.raises(NamespaceMappingError, match=words):
        downstream_namespace(rule, SHOP)


def test_a_template_without_a_workspace_says_what_it_lacks() -> None:
    with pytest.raises(NamespaceMappingError, match="not a DNS label"):
        downstream_namespace(NamespaceRule(template="{{ workspace.name }}-{{ namespace }}"), UpstreamNamespace("shop"))


@thorough
@given(st.sampled_from(["team-", "a" * 60, "a-" * 30, "b" * 51 + "-" * 10]), labels, labels)
def test_a_long_name_is_cut_and_stays_different_from_others(prefix: str, one: str, other: str) -> None:
    rule = NamespaceRule(prefix=prefix)
    name = downstream_namespace(rule, UpstreamNamespace(one))
    assert LABEL.fullmatch(name)
    assert name == downstream_namespace(rule, UpstreamNamespace(one))
    assert (name == downstream_namespace(rule, UpstreamNamespace(other))) is (one == other)
    if len(prefix + one) <= 63:
        assert name == prefix + one


class TestResolving:
    RULE = NamespaceRule(template="x-{{ namespace }}")
    CLASHING = NamespaceRule(template="all")

    def test_each_namespace_gets_its_name(self) -> None:
        found = resolve_namespaces(self.RULE, [UpstreamNamespace("a"), SHOP], {})
        assert found.names == {"a": "x-a", "2x7k/shop": "x-shop"}
        assert found.refused == {}

    def test_of_two_with_the_same_name_the_first_gets_it(self) -> None:
        found = resolve_namespaces(self.CLASHING, [UpstreamNamespace("b"), UpstreamNamespace("a")], {})
        assert found.names == {"a": "all"}
        assert "holds the copies of a" in found.refused["b"]

    def test_the_recorded_one_stays(self) -> None:
        both = [UpstreamNamespace("b"), UpstreamNamespace("a")]
        found = resolve_namespaces(self.CLASHING, both, {"b": "all"})
        assert found.names == {"b": "all"}
        assert [*found.refused] == ["a"]

    def test_a_namespace_that_is_gone_keeps_its_name_until_its_record_is_dropped(self) -> None:
        found = resolve_namespaces(self.CLASHING, [UpstreamNamespace("a")], {"z": "all"})
        assert found.names == {}
        assert "holds the copies of z" in found.refused["a"]

    def test_a_new_rule_gives_a_recorded_namespace_its_new_name(self) -> None:
        found = resolve_namespaces(self.RULE, [UpstreamNamespace("a")], {"a": "old-a"})
        assert found.names == {"a": "x-a"}

    def test_workspaces_with_namespaces_of_one_name_do_not_share(self) -> None:
        other = UpstreamNamespace("shop", Workspace("root:other", "other", "3abc"))
        found = resolve_namespaces(SAME, [SHOP, other], {})
        assert found.names == {"2x7k/shop": "shop"}
        assert "namespace shop of workspace root:other" in found.refused["3abc/shop"]

    def test_a_fixed_namespace_is_shared(self) -> None:
        found = resolve_namespaces(NamespaceRule(fixed="one"), [UpstreamNamespace("a"), UpstreamNamespace("b")], {})
        assert found.names == {"a": "one", "b": "one"}

    @pytest.mark.parametrize(
        ("rule", "namespace"),
        [
            (SAME, "kube-system"),
            (NamespaceRule(prefix="kube-"), "shop"),
            (NamespaceRule(template="kube-{{ namespace }}"), "system"),
            (NamespaceRule(fixed="kube-public"), "shop"),
            (SAME, "syncline-system"),
            (NamespaceRule(fixed="syncline-system"), "shop"),
            (NamespaceRule(prefix="infra-"), "dns"),
        ],
    )
    def test_guarded_namespaces_are_never_a_destination(self, rule: NamespaceRule, namespace: str) -> None:
        guarded = frozenset({"syncline-system", "infra-*"})
        found = resolve_namespaces(rule, [UpstreamNamespace(namespace)], {namespace: namespace}, guarded)
        assert found.names == {}
        assert "write a mapping that gives another name" in found.refused[namespace]

    @quick
    @given(
        st.sets(st.sampled_from("abcdef")),
        st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from(["x-a", "x-b", "all"])),
        st.sampled_from([RULE, CLASHING, SAME]),
        st.randoms(),
    )
    def test_no_name_has_two_holders_and_the_order_does_not_matter(
        self, names: set[str], recorded: dict[str, str], rule: NamespaceRule, dice: random.Random
    ) -> None:
        namespaces = [UpstreamNamespace(name) for name in names]
        found = resolve_namespaces(rule, namespaces, recorded)
        dice.shuffle(namespaces)
        assert resolve_namespaces(rule, namespaces, recorded) == found
        assert len(set(found.names.values())) == len(found.names)
        assert {*found.names, *found.refused} == names
        again = resolve_namespaces(rule, namespaces, {**recorded, **found.names})
        assert again.names.items() >= found.names.items(), "what has a name keeps it"


class TestSharedObjects:
    WEB = SharedObject("Deployment.apps", "web")

    def test_the_first_namespace_owns_an_object(self) -> None:
        found = resolve_objects([(self.WEB, "b"), (self.WEB, "a"), (SharedObject("Service", "web"), "b")], {})
        assert found.owners == {self.WEB: "a", SharedObject("Service", "web"): "b"}
        assert "Deployment.apps web of namespace b has the name of a copy from a" in found.refused[self.WEB, "b"]

    def test_the_recorded_namespace_keeps_it(self) -> None:
        found = resolve_objects([(self.WEB, "b"), (self.WEB, "a")], {self.WEB: "b"})
        assert found.owners == {self.WEB: "b"}
        assert [*found.refused] == [(self.WEB, "a")]

    def test_a_record_holds_while_its_object_is_gone(self) -> None:
        assert resolve_objects([(self.WEB, "a")], {self.WEB: "b"}).owners == {}


class TestAddresses:
    @pytest.mark.parametrize(
        ("server", "workspace", "address"),
        [
            ("https://kcp:6443/clusters/root", "root", "https://kcp:6443/clusters/root"),
            ("https://kcp:6443/clusters/root", "root:team", "https://kcp:6443/clusters/root:team"),
            ("https://kcp:6443/clusters/root/", "root:team:a", "https://kcp:6443/clusters/root:team:a"),
            ("https://kcp:6443/clusters/root%3Ateam", "root:team:a", "https://kcp:6443/clusters/root:team:a"),
            ("https://kcp:6443/clusters/2x7k", "2x7k:a", "https://kcp:6443/clusters/2x7k:a"),
            ("https://proxy/kcp/clusters/root", "root:a", "https://proxy/kcp/clusters/root:a"),
            ("https://kcp:6443", "root:team", "https://kcp:6443/clusters/root:team"),
            ("https://[::1]:6443/", "root:team", "https://[::1]:6443/clusters/root:team"),
        ],
    )
    def test_a_workspace_at_or_below_that_of_the_server_is_reached(
        self, server: str, workspace: str, address: str
    ) -> None:
        assert workspace_server(server, workspace) == address
        assert server_workspace(address) == workspace

    @pytest.mark.parametrize(
        ("server", "workspace"),
        [
            ("https://kcp/clusters/root:team", "root"),
            ("https://kcp/clusters/root:team", "root:team2"),
            ("https://kcp/clusters/root:team", "root:other"),
            ("https://kcp/clusters/root", "rooted"),
            ("https://kcp/clusters/*", "root"),
            ("https://kcp/clusters/root/api", "root"),
            ("https://rancher/k8s/proxy", "root"),
            ("https://kcp/clusters/root?x=1", "root"),
            ("https://kcp/clusters/root#x", "root"),
            ("kcp", "root"),
            ("https://kcp/clusters/root", "root:../../api"),
            ("https://kcp/clusters/root", "root:team/../x"),
            ("https://kcp/clusters/root", "root:*"),
            ("https://kcp", "*"),
        ],
    )
    def test_any_other_workspace_is_refused(self, server: str, workspace: str) -> None:
        with pytest.raises(WorkspaceError):
            workspace_server(server, workspace)

    @pytest.mark.parametrize("path", ["root", "root:team", "root:a-b:c1", "2x7k9"])
    def test_the_path_of_a_workspace(self, path: str) -> None:
        assert check_workspace(path) == path

    @pytest.mark.parametrize("path", ["", ":", "root:", ":root", "root::a", "Root", "root:a_b", "root/a", "r " * 600])
    def test_what_is_no_path_of_a_workspace(self, path: str) -> None:
        with pytest.raises(WorkspaceError, match="such as root:team"):
            check_workspace(path)

    @pytest.mark.parametrize("server", ["https://kcp", "https://kcp/clusters/*", "https://kcp/clusters/a/b"])
    def test_a_server_that_names_no_workspace(self, server: str) -> None:
        assert server_workspace(server) == ""
