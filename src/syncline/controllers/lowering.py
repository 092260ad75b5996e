"""ConfigMapSync, lowered: from its spec to a scope, a policy, the namespaces it reaches, and what each should hold."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from syncline.api.common import TargetState
from syncline.api.configmapsync import ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.controllers.reporting import Problem
from syncline.core.content import ContentError, select_keys
from syncline.core.digest import short_digest
from syncline.core.objects import Content, Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Policy
from syncline.core.sanitize import travelling
from syncline.core.scope import Namespace, Reach, Scope, scope_of
from syncline.core.wire import ConfigMapWire
from syncline.engine.claims import Claim
from syncline.engine.cluster import Cluster
from syncline.engine.interests import Interest
from syncline.engine.record import Sync
from syncline.kube.cache import Key
from syncline.render import Renderer, RenderFailed, Result, TransformError
from syncline.render import Source as RenderSource
from syncline.render import Target as RenderTarget

ConfigMapSync = Sync[ConfigMapSyncSpec, ConfigMapSyncStatus]


class Work(Struct, frozen=True, kw_only=True):
    """What one turn of a sync works with."""

    sync: ConfigMapSync
    spec: ConfigMapSyncSpec
    source: Target
    name: str
    """The name of the copies."""
    scope: Scope
    scope_digest: str
    policy: Policy
    user: str | None
    """Who reads and writes; None: the operator itself."""
    wanted: tuple[Namespace, ...] = ()
    passed_over: tuple[Outcome, ...] = ()
    """Targets that the spec names but that cannot or must not be written."""

    def target(self, namespace: str) -> Target:
        """Return the place of the copy in a namespace."""
        return Target(namespace, self.name)

    def wants(self, target: Target, namespace: Namespace) -> bool:
        """Whether a copy at this place is wanted, as far as the spec and this state of its namespace say."""
        return target.name == self.name and target != self.source and self.scope.matches(namespace)

    def interest(self) -> Interest:
        """Return what should wake the sync."""
        return Interest(source=Key(self.source.namespace, self.source.name), name=self.name, scope=self.scope)

    def claim(self) -> Claim | None:
        """Return what the sync lays claim to; one that is suspended or being deleted to nothing."""
        if self.spec.suspend or self.sync.deleting:
            return None
        return Claim(
            ref=self.sync.owner.ref,
            created=self.sync.metadata.creation_timestamp,
            name=self.name,
            scope=self.scope,
            source=self.source,
        )


def lower(sync: ConfigMapSync, spec: ConfigMapSyncSpec, guarded: frozenset[str], cluster: Cluster | None) -> Work:
    """Lower a spec; without a cluster, only as far as the spec alone tells."""
    names = (spec.destination_namespace,) if spec.destination_namespace else ()
    scope = scope_of(names, tuple(spec.destination_namespaces), spec.destination_namespace_selector, guarded)
    name = spec.destination_name or spec.config_map_name
    source = Target(spec.source_namespace, spec.config_map_name)
    wanted, passed_over = reached(scope, source, name, cluster) if cluster is not None else ((), ())
    account = spec.service_account_name
    return Work(
        sync=sync,
        spec=spec,
        source=source,
        name=name,
        scope=scope,
        scope_digest=short_digest(scope.digest(), name),
        policy=Policy(management=spec.resource_management_policy, conflict=spec.conflict_policy),
        user=f"system:serviceaccount:{sync.metadata.namespace}:{account}" if account else None,
        wanted=wanted,
        passed_over=passed_over,
    )


def reached(
    scope: Scope, source: Target, name: str, cluster: Cluster
) -> tuple[tuple[Namespace, ...], tuple[Outcome, ...]]:
    """Sort the namespaces that a scope names into those to write to, and those passed over with the reason."""
    wanted: list[Namespace] = []
    passed_over: list[Outcome] = []

    def pass_over(namespace: str, state: TargetState, reason: str, message: str) -> None:
        passed_over.append(Outcome(target=Target(namespace, name), state=state, reason=reason, message=message))

    named = {spelled: cluster.namespace(spelled) for spelled in scope.names}
    # Without globs and selectors the cost is that of the names, however many namespaces there are.
    open_ended = bool(scope.globs) or scope.selector is not None
    found: Iterable[Namespace | None] = cluster.namespaces.values() if open_ended else named.values()
    for namespace in found:
        if namespace is None or Target(namespace.name, name) == source:
            continue
        match scope.reach(namespace):
            case Reach.WANTED:
                wanted.append(namespace)
            case Reach.IGNORED:
                message = f"namespace {namespace.name!r} is labelled syncline.dev/ignore: true"
                pass_over(namespace.name, "Skipped", "NamespaceIgnored", message)
            case Reach.TERMINATING:
                pass_over(namespace.name, "Skipped", "NamespaceTerminating", "the namespace is being deleted")
            case _:
                pass
    for spelled in sorted(spelled for spelled, namespace in named.items() if namespace is None):
        message = f"namespace {spelled!r} does not exist; it gets its copy when it is created"
        pass_over(spelled, "Pending", "NamespaceNotFound", message)
    return tuple(wanted), tuple(passed_over)


async def desire(work: Work, source: ConfigMapWire, renderer: Renderer) -> tuple[list[Desired], list[Outcome]]:
    """Select, rename and transform: what each target should hold, and where that cannot be said.

    Raises `Problem` where it can be said for none.
    """
    spec = work.spec
    targets = [work.target(namespace.name) for namespace in work.wanted]
    try:
        data, binary = select_keys(spec.keys, source.data or {}, source.binary_data or {})
        texts: Sequence[Result] = [data] * len(targets)
        if spec.transforms and targets:
            texts = await renderer.transform(
                spec.transforms,
                data,
                binary,
                RenderSource(work.source.namespace, work.source.name),
                [RenderTarget(target.namespace, target.name) for target in targets],
            )
    except (ContentError, TransformError) as error:
        raise Problem("InvalidContent", str(error), stalled=True) from error
    except RenderFailed as error:
        raise Problem("RenderFailed", str(error), again=error.retry_after, retry=not error.retry_after) from error
    labels = travelling(source.metadata.labels)
    annotations = travelling(source.metadata.annotations)
    contents: dict[int, tuple[Content, str]] = {}
    desired: list[Desired] = []
    failed: list[Outcome] = []
    for target, text in zip(targets, texts, strict=True):
        if isinstance(text, TransformError):
            failed.append(Outcome(target=target, state="Failed", reason="InvalidContent", message=str(text)))
            continue
        # Where nothing depends on the target, all share one text, and so one content and one digest.
        if id(text) not in contents:
            content = Content(data=text, binary_data=binary, immutable=bool(source.immutable))
            contents[id(text)] = (content, content.digest())
        content, digest = contents[id(text)]
        desired.append(
            Desired(
                target=target,
                content=content,
                digest=digest,
                source=f"ConfigMap/{work.source}",
                revision=source.metadata.resource_version,
                labels=labels,
                annotations=annotations,
            )
        )
    return desired, failed
