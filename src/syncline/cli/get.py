"""`syncline get [KIND] [NAME]`: the syncs of a cluster, or all details of one sync."""

import argparse
import asyncio
import json
from typing import Any

from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS, CONFIG_SYNC, IGNITION_SYNC, KINDS, SYNC_TARGET, TENANT_POLICY, Kind
from syncline.cli import connect
from syncline.cli.arguments import Reference, UsageError, reference, resource_of
from syncline.cli.details import age, ready, resource_words, show_details, source_words, track_words
from syncline.cli.gateway_details import followed_ref
from syncline.cli.sync_ref import find_kind, not_served
from syncline.cli.table import print_table
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.errors import Forbidden, NotFound
from syncline.telemetry import configure

Json = dict[str, Any]
Found = list[tuple[Kind, Json]]


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "get",
        help="list syncs, SyncTargets or TenantPolicies, or show the details of one",
        description="Without KIND: list all syncs and SyncTargets. With NAME: show conditions, targets and history,"
        " or the limits of a TenantPolicy.",
    )
    connect.add_flags(parser)
    parser.add_argument(
        "kind",
        nargs="?",
        metavar="KIND",
        help="ConfigMapSync, ManifestSync, ConfigSync, WorkspaceSync, IgnitionSync, SyncTarget, TenantPolicy; cms,"
        " msync, csync, wss, isync, st, tp; or KIND/NAME, or NAME alone",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="show the details of this object")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", metavar="N", help="the namespace (default: the context's namespace)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="list the objects of all namespaces")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="table, or json with the complete objects"
    )
    parser.set_defaults(func=_get)


def _get(given: argparse.Namespace) -> int:
    named = _named(given)
    name = named.name
    if name is not None and given.all_namespaces:
        raise UsageError("-A cannot be combined with NAME: write -n NAMESPACE instead")
    connection = connect.connection(given)
    configure("console", "error")
    namespace = None if given.all_namespaces else given.namespace or connection.namespace or "default"
    found = asyncio.run(_find(connection, named, namespace))
    if given.output == "json":
        _print_json(found, single=name is not None)
    elif name is not None:
        show_details(*found[0])
    else:
        _print_tables(found, namespace)
    return 0


def _named(given: argparse.Namespace) -> Reference:
    """Read the requested objects. TenantPolicies are cluster-scoped, and are shown only if their kind is named."""
    named = reference(given.kind, given.name, ALL_KINDS)
    return named if named.kind is not None else Reference(KINDS, named.name)


async def _find(connection: Connection, named: Reference, namespace: str | None) -> Found:
    """Read the requested objects. Kinds that the cluster does not serve are skipped, unless it serves none of them."""
    found: Found = []
    missing: list[Kind] = []
    name, kinds = named.name, named.kinds
    async with Client(connection) as client:
        if name is not None and namespace is not None:
            kinds = (await find_kind(client, named, namespace),)
        for kind in kinds:
            resource = resource_of(kind)
            where = namespace if kind.namespaced else None
            try:
                if name is not None:
                    objects = [await client.get(resource, name, where)]
                else:
                    objects, _ = await client.list(resource, where)
            except Forbidden as error:
                if kind is TENANT_POLICY and name is None:
                    message = f"you may not list all TenantPolicies, name one (syncline get tenantpolicy NAME): {error}"
                    raise UsageError(message) from None
                raise
            except NotFound as error:
                if name is not None and error.about == name:
                    there = f" in namespace {namespace}" if kind.namespaced else ""
                    raise UsageError(f"there is no {kind.kind} {name}{there}") from None
                missing.append(kind)
                continue
            found += [(kind, _clean(kind, one)) for one in objects]
    if len(missing) == len(kinds):
        raise UsageError(not_served(*missing))
    return found


def _clean(kind: Kind, one: Json) -> Json:
    """Add the kind, which lists do not contain, and remove fields that nobody reads."""
    metadata = {key: value for key, value in one["metadata"].items() if key != "managedFields"}
    return {"apiVersion": API_VERSION, "kind": kind.kind, **one, "metadata": metadata}


def _print_json(found: Found, *, single: bool) -> None:
    objects = [one for _, one in found]
    body = objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": objects}
    print(json.dumps(body, indent=2, ensure_ascii=False))


def _print_tables(found: Found, namespace: str | None) -> None:
    copies = [
        _sync_row(one) for kind, one in found if kind not in (CONFIG_SYNC, IGNITION_SYNC, SYNC_TARGET, TENANT_POLICY)
    ]
    followers = [_follower_row(one) for kind, one in found if kind in (CONFIG_SYNC, IGNITION_SYNC)]
    clusters = [_cluster_row(one) for kind, one in found if kind is SYNC_TARGET]
    policies = [_policy_row(one) for kind, one in found if kind is TENANT_POLICY]
    said = False
    for columns, rows in (
        (("SOURCE", "TARGETS"), copies),
        (("SOURCE", "REVISION", "TARGETS"), followers),
        (("VERSION", "EXPIRES", "RESOURCES"), clusters),
        (("NAMESPACES", "SYNCS"), policies),
    ):
        if said and rows:
            print()
        print_table(("KIND", "NAMESPACE", "NAME", *columns, "READY", "REASON", "AGE"), rows)
        said = said or bool(rows)
    if not found:
        print(
            "nothing found" if namespace is None else f"nothing found in namespace {namespace}; -A lists all namespaces"
        )


def _sync_row(one: Json) -> tuple[str, ...]:
    return _row(one, source_words(one), _counts(one))


def _follower_row(one: Json) -> tuple[str, ...]:
    revision = followed_ref(one) if one["kind"] == IGNITION_SYNC.kind else track_words(_status(one))
    return _row(one, source_words(one), revision, _counts(one))


def _cluster_row(one: Json) -> tuple[str, ...]:
    known = (_status(one).get(key) or "-" for key in ("version", "credentialExpiry"))
    return _row(one, *known, resource_words(_status(one)))


def _policy_row(one: Json) -> tuple[str, ...]:
    return _row(one, *(str(_status(one).get(key, 0)) for key in ("namespaces", "syncs")))


def _row(one: Json, *cells: str) -> tuple[str, ...]:
    meta = one["metadata"]
    named = (one["kind"], meta.get("namespace", "-"), meta["name"])
    return (*named, *cells, *ready(_status(one)), age(meta["creationTimestamp"]))


def _counts(one: Json) -> str:
    return (_status(one).get("targets") or {}).get("summary") or "-"


def _status(one: Json) -> Json:
    return one.get("status") or {}
