"""The API reference as Markdown, from the same schemas that the API server checks."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from syncline.api.common import API_VERSION
from syncline.api.crd import schema
from syncline.api.kinds import ALL_KINDS, CONFIG_MAP_SYNC, CONFIG_SYNC, MANIFEST_SYNC, SYNC_TARGET, Kind
from syncline.api.schema import VALIDATIONS, Schema
from syncline.core.profiles import DEFAULT, PROFILES, SHARES, Share
from syncline.deploy.names import AGGREGATE_LABEL
from syncline.deploy.policy import configmapsync, configsync, manifestsync, synctarget
from syncline.deploy.policy.kinds import CLUSTER_WIDE, NAMESPACED
from syncline.deploy.policy.parts import Needs
from syncline.deploy.rights import (
    CORE,
    DIGEST_KEY_RIGHTS,
    LEASE,
    METRICS_READER,
    POLICY_VIEW,
    REVIEWS,
    VIEW,
    Grant,
    editing,
)

_POLICIES = (
    (CONFIG_MAP_SYNC, configmapsync),
    (CONFIG_SYNC, configsync),
    (SYNC_TARGET, synctarget),
    (MANIFEST_SYNC, manifestsync),
)
_GENERATED = "<!-- Written by `make generate` from the types in src/syncline; edit those. -->\n"


def pages() -> dict[str, str]:
    """Return the reference: file name to text."""
    return {
        "README.md": _index(),
        **{f"{kind.singular}.md": page(kind) for kind in ALL_KINDS},
        "rights.md": _rights(),
    }


def page(kind: Kind) -> str:
    """Return the page of one kind."""
    whole = schema(kind)
    spec, status = whole["properties"]["spec"], whole["properties"]["status"]
    short = ", ".join(f"`{name}`" for name in kind.short_names)
    scope = "namespaced" if kind.namespaced else "cluster-scoped"
    columns = [(column.name, f"`{column.path}`", column.description) for column in kind.columns]
    rules = list(_rules(spec, "spec"))
    return "\n".join(
        [
            f"# {kind.kind}\n",
            _GENERATED,
            f"{whole['description']}\n",
            f"`apiVersion: {API_VERSION}`, `kind: {kind.kind}`, short name {short}, {scope}.\n",
            "## spec\n",
            f"{spec['description']}\n",
            _table(("Field", "Type", "Default", "Meaning"), [_spec_row(*field) for field in _fields(spec)]),
            "## Rules\n",
            "The API server refuses a spec that breaks one of these, with the words given here.\n",
            "\n".join(
                f"- `{rule.where}`: {_plain(rule.message)}\n\n{_indented(rule.cel)}"
                for rule in rules
                if rule.crosses_fields
            ),
            "How single values are written:\n",
            _table(
                ("Value", "Message"),
                [(f"`{rule.where}`", _plain(rule.message)) for rule in rules if not rule.crosses_fields],
            ),
            "## status\n",
            f"{status['description']}\n",
            _table(("Field", "Type", "Meaning"), [_status_row(*field) for field in _fields(status)]),
            "## kubectl get\n",
            _table(("Column", "From", "Meaning"), columns),
        ]
    )


def _index() -> str:
    rows = [(f"[{kind.kind}]({kind.singular}.md)", _names(kind), str(kind.object.__doc__)) for kind in ALL_KINDS]
    return "\n".join(
        [
            "# Reference\n",
            _GENERATED,
            f"All kinds are of `{API_VERSION}`, and all but TenantPolicy are namespaced. They need Kubernetes 1.30 or",
            "newer.\n",
            _table(("Kind", "Names for kubectl", "What it does"), rows),
            "What the operator itself may do, and which roles people get, is in [rights.md](rights.md).\n",
        ]
    )


def _names(kind: Kind) -> str:
    return ", ".join(f"`{name}`" for name in (kind.plural, *kind.short_names))


def _rights() -> str:
    header = ("API group", "Resources", "Verbs", "Why")
    return "\n".join(
        [
            "# Rights\n",
            _GENERATED,
            "## The operator\n",
            "ClusterRole `syncline-core`: what the operator always needs.\n",
            _table(header, [_grant_row(grant) for grant in (*CORE, *REVIEWS)]),
            "Whoever installs the operator chooses the rest by a profile, with `--rights` of `syncline install` and",
            f"`syncline manifests` (default `{DEFAULT}`). Syncs without `serviceAccountName` act with these rights.",
            "A kind that is only read is watched for syncs with an account, and written as that account.\n",
            _table(
                ("ClusterRole", "API group", "Resources", *(f"`{profile}`" for profile in PROFILES)),
                [row for share in SHARES for row in _share_rows(share)],
            ),
            "Writing is get, list, watch, create, patch, update and delete; of ConfigMaps and Secrets, all but update.",
            "`admin` writes every kind, and is as good as cluster-admin.\n",
            f'Every ClusterRole with the label `{AGGREGATE_LABEL}: "true"` is added to the operator\'s rights',
            "in the same way; remove one and the operator loses them.\n",
            "Roles `syncline-leader` and `syncline-digest-key`, in the operator's namespace only:\n",
            _table(header, [_grant_row(grant) for grant in (*LEASE, *DIGEST_KEY_RIGHTS)]),
            "## People\n",
            "ClusterRole `syncline-view`, part of the cluster's own roles view, edit and admin:\n",
            _table(header, [_grant_row(grant) for grant in VIEW]),
            "ClusterRole `syncline-edit`, part of the cluster's own roles edit and admin; `--tenant-kinds` chooses the",
            "kinds, by default all:\n",
            _table(header, [_grant_row(grant) for grant in editing()]),
            "ClusterRole `syncline-write` has all kinds and is part of no other role: bind it to whom you want to give",
            "more than edit and admin have.\n",
            f"ClusterRole `{METRICS_READER}`, bound to nobody, for those who [scrape](../operations.md#metrics):",
            "`get` on the nonResourceURL `/metrics`.\n",
            "ClusterRole `syncline-tenantpolicy-view`, part of no other role: bind it to those who may see the",
            "policies of all tenants. Policies are written by administrators of the cluster alone.\n",
            _table(header, [_grant_row(grant) for grant in POLICY_VIEW]),
            "## Authors\n",
            "A ValidatingAdmissionPolicy for each kind checks whoever creates an object of it or changes its spec, so",
            "that nobody gets through a sync what they may not do themselves. All that apply must hold.\n",
            *[line for kind, policy in _POLICIES for line in _authors(kind, policy.AUTHORS, policy.NEEDS)],
            "Kinds whose rights are checked one by one: "
            + ", ".join(f"`{resource}`" for resource in (*NAMESPACED.values(), *CLUSTER_WIDE.values()))
            + ".\n",
        ]
    )


def _authors(kind: Kind, policy: str, needs: Needs) -> tuple[str, ...]:
    return (
        f"### Authors of a {kind.kind}\n",
        f"Policy `{policy}`.\n",
        _table((f"The {kind.kind}", "Its author needs"), needs),
    )


def _grant_row(grant: Grant) -> tuple[str, ...]:
    return (
        f"`{grant.group}`" if grant.group else "core",
        ", ".join(f"`{resource}`" for resource in grant.resources)
        + "".join(f" named `{name}`" for name in grant.names),
        ", ".join(grant.verbs),
        grant.why,
    )


def _share_rows(share: Share) -> Iterator[tuple[str, ...]]:
    for group, resources in share.rules:
        may = [_may(share.verbs_in(profile)) for profile in PROFILES]
        yield (
            f"`{share.role}`",
            f"`{group}`" if group else "core",
            ", ".join(f"`{resource}`" for resource in resources),
            *may,
        )


def _may(verbs: tuple[str, ...]) -> str:
    if "create" in verbs:
        return "write"
    return "read" if verbs else "-"


def _fields(struct: Schema, prefix: str = "") -> Iterator[tuple[str, Schema, bool]]:
    for name, field in struct["properties"].items():
        path = f"{prefix}{name}"
        yield path, field, name in struct.get("required", ())
        if "properties" in field:
            yield from _fields(field, f"{path}.")
        elif "properties" in field.get("items", {}):
            yield from _fields(field["items"], f"{path}[].")


class _Rule(NamedTuple):
    where: str
    message: str
    cel: str
    crosses_fields: bool


def _rules(node: Schema, path: str) -> Iterator[_Rule]:
    for validation in node.get(VALIDATIONS, ()):
        where = f"{path}{validation.get('fieldPath', '')}"
        yield _Rule(where, validation["message"], validation["rule"], "properties" in node)
    for name, field in node.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")
    for name, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if name in node:
            yield from _rules(node[name], f"{path}{suffix}")


def _spec_row(path: str, field: Schema, required: bool) -> tuple[str, ...]:
    default = f"`{_literal(field['default'])}`" if "default" in field else ""
    return f"`{path}`", _type(field), "required" if required else default, field["description"]


def _status_row(path: str, field: Schema, _required: bool) -> tuple[str, ...]:
    return f"`{path}`", _type(field), field["description"]


def _literal(value: str | bool) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _type(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list, at most {field['maxItems']}, of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map, at most {field['maxProperties']}, to {_type(field['additionalProperties'])}"
    if "x-kubernetes-preserve-unknown-fields" in field:
        return "object of any shape"
    if field["type"] == "string" and "maxLength" in field:
        return f"string, at most {field['maxLength']} characters"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = (header, ("---",) * len(header), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plain(words: str) -> str:
    return words.replace("*", r"\*").replace("_", r"\_")


def _indented(rule: str) -> str:
    return "".join(f"      {line}\n" for line in rule.splitlines())
