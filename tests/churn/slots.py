"""The syncs of the stage: each slot has one name, and draws a new spec whenever it is created or edited."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.churn.api import FAR, Json, Place, api_version
from tests.churn.names import CREDENTIAL, FAR_SPACES, GIT, GROUPS, HOME, LODGE, SRC, TARGETS, WIDE, WIDE_LABEL

Draw = Callable[[Random], Json]


@dataclass(frozen=True)
class Slot:
    """A place for a sync."""

    kind: str
    namespace: str
    name: str
    draw: Draw
    family: str
    copies: tuple[tuple[str, str], ...] = ()
    """Kind and name of the copies, where they are known from the slot alone."""
    lasting: bool = False
    """Whether it is never deleted."""

    @property
    def ref(self) -> str:
        """Name the sync."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def place(self) -> Place:
        """Where the sync itself is."""
        return self.kind, self.namespace, self.name


def selector(rng: Random) -> Json:
    """Draw a selector of target namespaces."""
    group = rng.choice(GROUPS)
    return rng.choice(
        [
            {"matchLabels": {"group": group}},
            {"matchExpressions": [{"key": "group", "operator": "In", "values": [group]}]},
            {
                "matchLabels": {"pool": "targets"},
                "matchExpressions": [{"key": "group", "operator": "NotIn", "values": [group]}],
            },
        ]
    )


def globs(rng: Random) -> list[str]:
    """Draw names and globs of target namespaces."""
    some = rng.sample(TARGETS, rng.randint(1, 3))
    return rng.choice([some, ["t-*"], ["t-?"], [*some[:1], "t-[0-3]".replace("[0-3]", rng.choice("0123"))], some])


def _where(rng: Random) -> Json:
    choice = rng.randrange(5)
    if choice == 0:
        return {"destinationNamespaceSelector": selector(rng)}
    if choice == 1:
        return {"destinationNamespaces": globs(rng)}
    if choice == 2:
        return {"destinationNamespace": rng.choice(TARGETS)}
    if choice == 3:
        return {"destinationNamespaces": rng.sample(TARGETS, 2), "destinationNamespaceSelector": selector(rng)}
    return {"destinationNamespaces": ["t-*"]}


def _ends(rng: Random) -> Json:
    """Draw what becomes of copies in the end; mostly the defaults."""
    spec: Json = {}
    if rng.random() < 0.2:
        spec["deletionPolicy"] = "Orphan"
    if rng.random() < 0.2:
        spec["sourceDeletionPolicy"] = "Orphan"
    if rng.random() < 0.15:
        spec["prune"] = False
    return spec


def _one_way(source: str, name: str, **fixed: object) -> Draw:
    def draw(rng: Random) -> Json:
        return {
            "sourceNamespace": SRC,
            "configMapName": source,
            "destinationName": name,
            **_where(rng),
            **_ends(rng),
            **fixed,
        }

    return draw


def _keyed(source: str, name: str) -> Draw:
    def draw(rng: Random) -> Json:
        keys = rng.choice(
            [
                {"include": ["s*"]},
                {"exclude": ["s1", "x*"]},
                {"include": ["s0", "s1"], "rename": {"s0": "first"}},
                {"exclude": ["s?"], "rename": {"x0": "other"}},
            ]
        )
        return {**_one_way(source, name)(rng), "keys": keys}

    return draw


def _rendered(rng: Random) -> Json:
    transforms = rng.choice(
        [
            [{"key": "s0", "set": "fixed"}],
            [{"key": "s?", "template": "{{ value }} in {{ target.namespace }}"}],
            [{"key": "added", "set": "1"}, {"key": "x0", "template": "{{ source.name }}: {{ value }}"}],
        ]
    )
    return {**_one_way("b", "rendered")(rng), "transforms": transforms}


def _two_way(source: str, namespace: str, name: str, policy: str) -> Draw:
    def draw(_: Random) -> Json:
        return {
            "sourceNamespace": SRC,
            "configMapName": source,
            "destinationNamespace": namespace,
            "destinationName": name,
            "direction": "Bidirectional",
            "conflictPolicy": policy,
        }

    return draw


def _wide(rng: Random) -> Json:
    spec: Json = {
        "sourceNamespace": SRC,
        "configMapName": "wide",
        "destinationName": "wide",
        "destinationNamespaceSelector": {"matchLabels": {WIDE_LABEL: "yes"}},
    }
    if rng.random() < 0.5:
        spec["destinationNamespaces"] = [rng.choice(TARGETS[:4])]
    return spec


def _manifest(kind: str, api: str, source: str, name: str = "", **fixed: object) -> Draw:
    def draw(rng: Random) -> Json:
        inside: Json = {"namespaces": globs(rng)} if rng.random() < 0.6 else {"namespaceSelector": selector(rng)}
        spec: Json = {
            "sourceRef": {"apiVersion": api, "kind": kind, "name": source, "namespace": SRC},
            "targets": {"inCluster": inside},
            **_ends(rng),
            **fixed,
        }
        return {**spec, "targetName": name} if name else spec

    return draw


def _bundle(rng: Random) -> Json:
    refs: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": SRC,
            "selector": {"matchLabels": {"bundle": rng.choice(("one", "two"))}},
        }
    ]
    if rng.random() < 0.5:
        refs.append({"apiVersion": "v1", "kind": "Secret", "namespace": SRC, "name": "s-b"})
    return {
        "sourceRefs": refs,
        "targets": {"inCluster": {"namespaces": rng.sample(TARGETS, rng.randint(1, 3))}},
        "targetName": "bundle-{{ source.name }}",
        **_ends(rng),
    }


def _patched(rng: Random) -> Json:
    spec = _manifest("ConfigMap", "v1", "b", "patched")(rng)
    patch = rng.choice(
        ['{"data":{"s0":null,"extra":"1"}}', '{"data":{"extra":"2"},"metadata":{"labels":{"team":"p"}}}']
    )
    return {**spec, "patch": {"patchStrategy": "Merge", "patchContent": patch}}


def _slow(rng: Random) -> Json:
    return {**_manifest("ConfigMap", "v1", "a", "slow")(rng), "syncPolicy": {"mode": "Interval", "interval": "3s"}}


def _git(url: str, number: int) -> Draw:
    def draw(rng: Random) -> Json:
        path = rng.choice((f"apps/{number}", f"apps/{number}", f"moved/{number}"))
        branch = rng.choice(("main", "main", "main", "next"))
        git = {"repo": url, "caSecretRef": {"name": "git-ca"}, "path": path, "revision": branch}
        return {"source": {"git": git}, "refreshInterval": "2s", **_ends(rng) | {"sourceDeletionPolicy": None}}

    def clean(rng: Random) -> Json:
        return {key: value for key, value in draw(rng).items() if value is not None}

    return clean


def _far(rng: Random, remote: Json) -> Json:
    """Draw which namespaces of the second cluster are meant."""
    some = rng.sample(FAR_SPACES, 2)
    where: Json = rng.choice(({"namespaces": some}, {"namespaces": ["f-*"]}, {"namespaceSelector": selector(rng)}))
    return {**remote, **where}


def _by_kubeconfig(rng: Random) -> Json:
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": CREDENTIAL}}
    return {
        "sourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": SRC},
        "targets": {"remoteClusters": [_far(rng, {"clusterName": FAR, "connection": connection})]},
        "targetName": "far-a",
        **_ends(rng),
    }


def _by_target(rng: Random) -> Json:
    connection: Json = {"type": "SyncTarget", "syncTargetRef": {"name": FAR}}
    if rng.random() < 0.5:
        connection = {"type": "SyncTarget", "selector": {"matchLabels": {"place": FAR}}}
    targets: Json = {"remoteClusters": [_far(rng, {"connection": connection})]}
    if rng.random() < 0.5:
        targets["inCluster"] = {"namespaces": rng.sample(TARGETS, 2)}
    return {
        "sourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "s-b", "namespace": SRC},
        "targets": targets,
        "targetName": "far-b",
        **_ends(rng),
    }


def git_copies(app: int) -> tuple[tuple[str, str], ...]:
    """Return kind and name of what the folder of an app may hold, file by file."""
    kinds = ("ConfigMap", "ConfigMap", "ConfigMap", "NetworkPolicy", "ConfigMap")
    return tuple((kind, f"git-{app}-{number}") for number, kind in enumerate(kinds))


def _cms(name: str, draw: Draw, family: str, copy: str, **more: object) -> Slot:
    namespace = str(more.pop("namespace", HOME))
    return Slot("ConfigMapSync", namespace, name, draw, family, (("ConfigMap", copy),), **more)  # type: ignore[arg-type]


def _msync(name: str, family: str, kind: str, source: str, copy: str, *, namespace: str = HOME) -> Slot:
    draw = _manifest(kind, api_version(kind), source, copy)
    return Slot("ManifestSync", namespace, name, draw, family, ((kind, copy),))


def slots(git_url: str = "", *, far: bool = False) -> tuple[Slot, ...]:
    """Return all slots; without a URL, none that follow Git, and none of a second cluster unless there is one."""
    plain = [
        _cms(f"plain-{number}", _one_way(source, f"plain-{number}"), "plain", f"plain-{number}")
        for number, source in enumerate(("a", "b", "c", "d"))
    ]
    policies = [
        _cms("keep", _one_way("a", "keep", resourceManagementPolicy="Keep"), "keep", "keep"),
        _cms("adopt", _one_way("a", "adopt", resourceManagementPolicy="Adopt"), "adopt", "adopt"),
        _cms("overwrite", _one_way("b", "overwrite", resourceManagementPolicy="Overwrite"), "overwrite", "overwrite"),
        _cms("merge", _one_way("b", "merge", conflictPolicy="Merge"), "merge", "merge"),
        _cms("skip", _one_way("a", "skip", conflictPolicy="Skip"), "skip", "skip"),
        _cms("keyed", _keyed("a", "keyed"), "keyed", "keyed"),
        _cms("rendered", _rendered, "rendered", "rendered"),
    ]
    pairs = [
        _cms("two-0", _two_way("d", "t-0", "two-0", "Merge"), "two", "two-0"),
        _cms("two-1", _two_way("d", "t-1", "two-1", "Merge"), "two", "two-1"),
        _cms("two-2", _two_way("e", "t-2", "two-2", "SourceWins"), "two", "two-2"),
        _cms("two-3", _two_way("f", "t-3", "two-3", "LastWriteWins"), "two", "two-3"),
        _cms("of-e", _one_way("e", "of-e"), "plain", "of-e"),
    ]
    clash = [
        _cms("clash-0", _one_way("a", "clash"), "clash", "clash"),
        _cms("clash-1", _one_way("b", "clash"), "clash", "clash", namespace=LODGE),
        _msync("clash-2", "clash", "ConfigMap", "c", "clash"),
    ]
    manifests = [
        _msync("secret", "secret", "Secret", "s-a", "secret"),
        _msync("secret", "secret", "Secret", "s-b", "lodged", namespace=LODGE),
        _msync("policy", "applied", "NetworkPolicy", "np", "np-copy"),
        _msync("widget", "applied", "Widget", "widget", "widget-copy"),
        _msync("service", "applied", "Service", "svc", "svc-copy"),
        Slot("ManifestSync", HOME, "slow", _slow, "slow", (("ConfigMap", "slow"),)),
        Slot("ManifestSync", HOME, "bundle", _bundle, "bundle"),
        Slot("ManifestSync", HOME, "patched", _patched, "patched", (("ConfigMap", "patched"),)),
    ]
    lodged = [_cms("lodged", _one_way("l", "of-lodge", sourceNamespace=LODGE), "plain", "of-lodge", namespace=LODGE)]
    wide = [_cms("wide", _wide, "wide", "wide", lasting=True)]
    git = [
        Slot("ConfigSync", HOME, f"git-{app}", _git(git_url, app), "git", git_copies(app))
        for app in range(3)
        if git_url
    ]
    remote = [
        Slot("ManifestSync", HOME, "far-a", _by_kubeconfig, "far", (("ConfigMap", "far-a"),)),
        Slot("ManifestSync", HOME, "far-b", _by_target, "far", (("Secret", "far-b"),)),
    ]
    return (*(remote if far else ()), *plain, *policies, *pairs, *clash, *manifests, *lodged, *wide, *git)


SOURCES: tuple[Place, ...] = (
    *(("ConfigMap", SRC, name) for name in ("a", "b", "c", "d", "e", "f")),
    *(("ConfigMap", SRC, f"p-{number}") for number in range(4)),
    ("ConfigMap", LODGE, "l"),
    ("Secret", SRC, "s-a"),
    ("Secret", SRC, "s-b"),
    ("NetworkPolicy", SRC, "np"),
    ("Service", SRC, "svc"),
    ("Widget", SRC, "widget"),
)
"""Sources that are edited, deleted and created again."""
WIDE_SOURCE: Place = ("ConfigMap", SRC, "wide")
IMMUTABLE: frozenset[Place] = frozenset({("ConfigMap", SRC, "c"), ("Secret", SRC, "s-a")})
"""Sources that are immutable now and then."""
NAMESPACES = (HOME, SRC, LODGE, *TARGETS, *WIDE, *GIT)
