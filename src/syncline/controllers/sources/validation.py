"""Validation of a revision as a whole, for every cluster that it is written to, before its first write.

With schemas, a worker checks all objects against the schemas of each cluster and the CRDs of the revision. With a dry
run, the API server checks new and changed objects. The result is kept with the build: a valid revision is not checked
again, and an invalid one only after the schemas of the cluster have changed.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec import structs

from syncline.api.configsync import ConfigSyncSpec
from syncline.controllers.errors import SourceError, SyncError
from syncline.controllers.lowered import LoweredSpec
from syncline.controllers.sources.field_lines import at_field_lines
from syncline.controllers.sources.prepared import PreparedRevision
from syncline.controllers.state import UnitState, ValidationResult
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.dry_run import DryRunner, Refusal
from syncline.controllers.targets.stages import for_cluster
from syncline.core.fielderrors import FieldError
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.redact import may_contain_secrets, strip_server_text
from syncline.core.schema_errors import explain_schema_error
from syncline.core.validity import Validity, explain, extent_of, invalid
from syncline.engine.cluster import Cluster
from syncline.engine.write_outcomes import INVALID_MANIFEST
from syncline.engine.writer import Writer
from syncline.kube.errors import Forbidden, KindNotServed, KubeError, NotFound
from syncline.kube.openapi import FRESH, KEPT, SchemaDocument
from syncline.render.errors import RenderFailed
from syncline.render.validation import Candidate, InvalidObject, Schema, Validation

# How long one reconcile waits for schemas. The reading continues, and the next reconcile uses its result.
SCHEMA_SECONDS = 5.0
# A server publishes the schema of a changed CRD after a moment: until then a refusal may be outdated.
PUBLISHING_SECONDS = 3.0
DEFINITION = "CustomResourceDefinition.apiextensions.k8s.io"
UNAVAILABLE = "ValidationUnavailable"
REFUSED = "DryRunRefused"
INVALID = INVALID_MANIFEST
STOPPED = "RenderFailed"
_VALID = Validity(state="Valid")
# Groups to which no CRD can add kinds: an unknown kind in them is misspelt, or of another version.
_BUILT_IN = frozenset({"", "apps", "autoscaling", "batch", "policy"}) | {
    f"{name}.k8s.io"
    for name in (
        *("admissionregistration", "apiextensions", "apiregistration", "certificates", "coordination", "discovery"),
        *("flowcontrol.apiserver", "networking", "node", "rbac.authorization", "scheduling", "storage"),
    )
}

Digests = frozenset[tuple[str, bytes]]


class Validator(Protocol):
    """Checks objects against schemas."""

    async def validate(self, work: Validation) -> list[InvalidObject]:
        """Return the errors. Raises `RenderFailed`."""

    async def field_lines(self, tenant: str, content: bytes, fields: Sequence[tuple[int, str]]) -> list[int]:
        """Return the line of each field of a file; 0 for a field that is not found. Raises `RenderFailed`."""


class RevisionValidator:
    """Validates the revisions of all ConfigSyncs."""

    def __init__(self, validator: Validator, writer: Callable[[TargetCluster], Writer]) -> None:
        self._validator = validator
        self._writer = writer

    async def validate(
        self,
        work: LoweredSpec,
        spec: ConfigSyncSpec,
        prepared: PreparedRevision,
        sites: Sequence[TargetCluster],
        known: UnitState,
    ) -> PreparedRevision:
        """Return the artifact to apply: the revision if it is valid; else the applied one, with the reason."""
        artifact = prepared.artifact
        if artifact is None or not sites:
            return prepared
        clusters = frozenset(site.cluster.name for site in sites)
        if spec.validation == "None" or known.accepts(artifact.inputs, clusters):
            known.accept(artifact, clusters)
            return prepared
        examination = _RevisionCheck(
            self._validator, DryRunner(self._writer), work=work, spec=spec, prepared=prepared, known=known
        )
        known.examined = await examination.examine(sites)
        applied = known.artifact.inputs if known.artifact is not None else prepared.recorded.inputs
        live = artifact.inputs == applied
        occupied = frozenset(site.cluster.name for site in sites if site.cluster.managed_by(site.owner.ref))
        extent = extent_of({name: one.validity for name, one in known.examined.items()}, live=live, occupied=occupied)
        problem = _problem(
            prepared, [(site.destination.cluster, known.examined[site.cluster.name]) for site in sites], live=live
        )
        if not extent.applied and problem is not None:
            return _fallback(prepared, known, clusters, problem)
        known.accept(artifact, frozenset(name for name, one in known.examined.items() if one.validity.state == "Valid"))
        if problem is None:
            return prepared
        return structs.replace(prepared, problem=prepared.problem or problem, certain=False, skipped=extent.passed_over)


class _RevisionCheck:
    """One revision, checked in all clusters at once."""

    def __init__(
        self,
        validator: Validator,
        dry_runs: DryRunner,
        *,
        work: LoweredSpec,
        spec: ConfigSyncSpec,
        prepared: PreparedRevision,
        known: UnitState,
    ) -> None:
        self._validator = validator
        self._dry_runs = dry_runs
        self._spec = spec
        self._known = known
        self._tenant = work.sync.metadata.namespace
        self._kept = frozenset(work.sync.status.kept)
        self._inputs = prepared.artifact.inputs if prepared.artifact is not None else ""
        self._source_tree = prepared.source_tree
        self._desired = prepared.desired()
        self._definitions = definitions_in(self._desired)
        self._checks: dict[tuple[Digests, tuple[Target, ...]], asyncio.Task[list[InvalidObject]]] = {}
        """The results by schemas: clusters with the same schemas have the same result."""

    async def examine(self, sites: Sequence[TargetCluster]) -> dict[str, ValidationResult]:
        """Check the revision, and return the results by cluster."""
        try:
            found = await asyncio.gather(*map(self._examined, sites))
        finally:
            for task in self._checks.values():
                task.cancel()
        return {site.cluster.name: one for site, one in zip(sites, found, strict=True)}

    async def _examined(self, site: TargetCluster) -> ValidationResult:
        if self._known.accepts(self._inputs, frozenset({site.cluster.name})):
            return ValidationResult(inputs=self._inputs, validity=_VALID)
        why: Validity
        try:
            return await (self._by_dry_run(site) if self._spec.validation == "DryRun" else self._by_schema(site))
        except KubeError as error:
            why = _unavailable(f"its schemas cannot be read: {error}; they are asked for again")
        except TimeoutError:
            why = _unavailable(f"its schemas did not come within {SCHEMA_SECONDS:g} s; they are asked for again")
        except RenderFailed as error:
            why = Validity(state="Unknown", reason=STOPPED, errors=(str(error),))
        return ValidationResult(inputs=self._inputs, validity=why)

    async def _by_schema(self, site: TargetCluster) -> ValidationResult:
        before = self._known.examined.get(site.cluster.name)
        refused = before is not None and before.inputs == self._inputs and before.validity.state == "Invalid"
        objects = [one for one in self._desired if one.body is not None]
        try:
            documents = await self._documents(site.cluster, objects, FRESH if refused else KEPT)
        except (NotFound, Forbidden):
            return await self._by_dry_run(site)  # the server publishes no schemas, or does not let us read them
        if before is not None and refused and before.settled and before.schemas == _digests(documents):
            return before
        errors = await self._errors(site.cluster, objects, documents)
        if errors and not refused:
            # An error counts only by the newest schemas.
            fresh = await self._documents(site.cluster, objects, FRESH)
            if _digests(fresh) != _digests(documents):
                documents, errors = fresh, await self._errors(site.cluster, objects, fresh)
        if not errors:
            return ValidationResult(inputs=self._inputs, validity=_VALID)
        since = before.since if before is not None and refused else time.monotonic()
        changing = any(self._may_change(one) for one, _ in errors)
        settled = not changing or time.monotonic() - since > PUBLISHING_SECONDS
        validity = invalid(INVALID, await self._named(errors))
        return ValidationResult(
            inputs=self._inputs, validity=validity, schemas=_digests(documents), settled=settled, since=since
        )

    async def _by_dry_run(self, site: TargetCluster) -> ValidationResult:
        """Check with a dry run. Objects that it cannot check yet are checked against schemas."""
        found = await self._dry_runs.run(site, self._desired, self._definitions, self._kept)
        if found.failure:
            why = _unavailable(f"it cannot be asked in a dry run: {found.failure}; it is asked again")
            return ValidationResult(inputs=self._inputs, validity=why)
        deferred = [one for one in found.deferred if one.body is not None]
        later = {one.target for one in found.deferred}
        errors = await self._unserved(site.cluster, (one for one in self._desired if one.target not in later))
        if deferred:
            documents: dict[str, SchemaDocument] = {}
            with suppress(NotFound, Forbidden):
                documents = await self._documents(site.cluster, deferred, KEPT)
            errors += await self._errors(site.cluster, deferred, documents)
        refusals = await self._refusals(found.refusals)
        if not refusals and not errors:
            return ValidationResult(inputs=self._inputs, validity=_VALID)
        wrong = bool(errors) or any(one.is_manifest for one in found.refusals)
        named = [*refusals, *(await self._named(errors))]
        return ValidationResult(inputs=self._inputs, validity=invalid(INVALID if wrong else REFUSED, named))

    async def _refusals(self, refusals: Sequence[Refusal]) -> list[str]:
        """Return the message of the server for a person, with the file and the line of the field that it names."""
        places = [one.desired.source for one in refusals]
        if self._source_tree is not None:
            named = [(one.desired.source, FieldError(one.field, "")) for one in refusals]
            places = await at_field_lines(self._validator, self._source_tree, self._tenant, named)
        return [
            f"{place}: {one.desired.target}: {self._said(one)}" for place, one in zip(places, refusals, strict=True)
        ]

    def _said(self, refusal: Refusal) -> str:
        message = str(refusal.error)
        is_secret = refusal.desired.target.kind == "Secret" or may_contain_secrets(self._spec)
        return strip_server_text(message) if is_secret else explain_schema_error(refusal.error.message) or message

    async def _named(self, errors: Sequence[tuple[Desired, FieldError]]) -> list[str]:
        """Return the messages of errors for a person, each with the file and the line of the field."""
        places = [one.source for one, _ in errors]
        if self._source_tree is not None:
            named = [(one.source, error) for one, error in errors]
            places = await at_field_lines(self._validator, self._source_tree, self._tenant, named)
        return [f"{place}: {one.target}: {error}" for place, (one, error) in zip(places, errors, strict=True)]

    def _may_change(self, desired: Desired) -> bool:
        """Whether the schema of an object is from a CRD in the cluster, which may have just changed."""
        return desired.target.kind not in self._definitions and _group(desired) not in _BUILT_IN

    async def _documents(self, cluster: Cluster, objects: Sequence[Desired], age: float) -> dict[str, SchemaDocument]:
        versions = sorted({one.body.api_version for one in objects if one.body is not None})
        async with asyncio.timeout(SCHEMA_SECONDS):
            return await cluster.openapi.documents(versions, age=age)

    async def _errors(
        self, cluster: Cluster, objects: Sequence[Desired], documents: Mapping[str, SchemaDocument]
    ) -> list[tuple[Desired, FieldError]]:
        """Return the errors of objects, by schemas."""
        unserved = await self._unserved(cluster, objects)
        key = (_digests(documents), tuple(one.target for one in objects))
        if key not in self._checks:
            work = self._validation(objects, documents)
            self._checks[key] = asyncio.create_task(self._validator.validate(work))
        found = await asyncio.shield(self._checks[key])
        return [*unserved, *((objects[one.index], one.error) for one in found)]

    def _validation(self, objects: Sequence[Desired], documents: Mapping[str, SchemaDocument]) -> Validation:
        digest = hashlib.blake2b(self._inputs.encode(), digest_size=16)
        for version, document in sorted(documents.items()):
            digest.update(version.encode() + document.digest)
        return Validation(
            tenant=self._tenant,
            what=f"{len(objects)} objects",
            digest=digest.digest(),
            objects=[
                Candidate(one.body.api_version, one.body.kind, one.body.fields)
                for one in objects
                if one.body is not None
            ],
            schemas={version: Schema(one.digest, one.packed) for version, one in documents.items()},
            definitions=[one.body.fields.get("spec") for one in self._definitions.values() if one.body is not None],
        )

    async def _unserved(self, cluster: Cluster, objects: Iterable[Desired]) -> list[tuple[Desired, FieldError]]:
        """Return the objects of kinds that the cluster does not serve and that no CRD can define."""
        found: list[tuple[Desired, FieldError]] = []
        said: dict[tuple[str, str], str] = {}
        for one in objects:
            if one.body is None or _group(one) not in _BUILT_IN:
                continue
            key = (one.body.api_version, one.body.kind)
            if key not in said:
                said[key] = await _why_unserved(cluster, _group(one), one.body.kind, one.body.api_version)
            if said[key]:
                found.append((one, FieldError("", said[key])))
        return found


def skip_clusters(
    prepared: PreparedRevision, sites: Sequence[TargetCluster]
) -> tuple[tuple[TargetCluster, ...], list[Outcome]]:
    """Return the clusters that a revision is written to, and the outcomes of the others."""
    outcomes = [
        Outcome(
            target=for_cluster(site, one).target,
            state="Failed" if validity.state == "Invalid" else "Unknown",
            reason=validity.reason,
            message="; ".join(validity.errors[:3]),
        )
        for site in sites
        if (validity := prepared.skipped.get(site.cluster.name)) is not None
        for one in prepared.desired()
    ]
    return tuple(site for site in sites if site.cluster.name not in prepared.skipped), outcomes


def _fallback(
    prepared: PreparedRevision, known: UnitState, clusters: frozenset[str], problem: SyncError
) -> PreparedRevision:
    """Return the applied artifact, for the clusters that it was written to. Nothing is removed."""
    held_back = Validity(state="Unknown", reason=problem.reason, errors=(problem.message,))
    return PreparedRevision(
        environment=prepared.environment,
        recorded=prepared.recorded,
        revision=prepared.recorded.revision,
        revisions=prepared.recorded.revisions,
        attempted=prepared.revision or "",
        artifact=known.artifact,
        decision=prepared.decision,
        problem=problem,
        skipped=dict.fromkeys(sorted(clusters - known.accepted), held_back),
    ).unpack()


def _problem(
    prepared: PreparedRevision, examined: Sequence[tuple[str, ValidationResult]], *, live: bool
) -> SyncError | None:
    """Describe the errors of a revision, for all clusters together."""
    revision = prepared.revision or ""
    refused = [one for one in examined if one[1].validity.state == "Invalid"]
    if refused:
        reasons = {one.validity.reason for _, one in refused}
        reason = INVALID if INVALID in reasons else REFUSED
        message = explain([(name, one.validity) for name, one in refused], revision, live=live)
        stalled = all(one.settled for _, one in refused)
        return SourceError(reason, message, stalled=stalled, retry=True)
    unknown = [one for one in examined if one[1].validity.state == "Unknown"]
    if unknown:
        reason = unknown[0][1].validity.reason
        message = explain([(name, one.validity) for name, one in unknown], revision, live=live)
        if reason == STOPPED:
            return SourceError(reason, message, stalled=True, retry=True)
        return SyncError(reason, message, status="Unknown", retry=True)
    return None


def _unavailable(why: str) -> Validity:
    return Validity(state="Unknown", reason=UNAVAILABLE, errors=(why,))


async def _why_unserved(cluster: Cluster, group: str, kind: str, api_version: str) -> str:
    try:
        await cluster.discovery.find(group, kind, api_version.rpartition("/")[2])
    except KindNotServed as error:
        return str(error) if error.certain else ""
    return ""


def definitions_in(desired: Iterable[Desired]) -> dict[str, Desired]:
    """Return the CRDs among objects, by the kind that each defines."""
    found: dict[str, Desired] = {}
    for one in desired:
        spec: Any = one.body.fields.get("spec") if one.target.kind == DEFINITION and one.body is not None else None
        names = spec.get("names") if isinstance(spec, Mapping) else None
        if isinstance(spec, Mapping) and isinstance(names, Mapping):
            found[str(GroupKind(str(spec.get("group")), str(names.get("kind"))))] = one
    return found


def _digests(documents: Mapping[str, SchemaDocument]) -> Digests:
    return frozenset((version, one.digest) for version, one in documents.items())


def _group(desired: Desired) -> str:
    return desired.target.group_kind.group
