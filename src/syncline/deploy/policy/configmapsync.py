"""The rights that the author of a ConfigMapSync needs."""

from syncline.api.configmapsync import PLURAL
from syncline.deploy.policy.parts import (
    ACCOUNT,
    ACCOUNT_NEEDS,
    OR_ACCOUNT,
    REMOVAL_NEEDS,
    Needs,
    Validation,
    account,
    account_taken_away,
    authors,
    name,
    removal,
    removers,
    without_account,
)
from syncline.deploy.text import Manifest

AUTHORS = name(PLURAL)
NEEDS: Needs = (
    *REMOVAL_NEEDS,
    ("has its account taken away", "also `delete` in all namespaces, by a ClusterRoleBinding"),
    *ACCOUNT_NEEDS,
    ("names no service account", "`get` on the source"),
    (
        "... and exactly one namespace",
        "`create`, `update` and `delete` there (for `update` and `delete`, the name of the copy is sufficient)",
    ),
    ("... and several namespaces, a glob or a selector", "the same in all namespaces, by a ClusterRoleBinding"),
    (
        "... and `direction: Bidirectional`",
        "also `get` on the copy, `update` on the source, and `create` in the source's namespace",
    ),
)

_VARIABLES = {
    **ACCOUNT,
    "twoWay": "object.spec.direction == 'Bidirectional'",
    "named": """\
(has(object.spec.destinationNamespace) ? [object.spec.destinationNamespace] : [])
+ (has(object.spec.destinationNamespaces) ? object.spec.destinationNamespaces : [])""",
    # The only namespace that the sync can write to, or '' (all namespaces) if there can be several.
    "destination": """\
has(object.spec.destinationNamespaceSelector)
|| variables.named.exists(name, name != variables.named[0] || name.contains('*') || name.contains('?'))
? '' : variables.named[0]""",
    "destinationWords": """\
variables.destination == '' ? 'all namespaces (this sync does not name exactly one)'
: 'namespace ' + variables.destination""",
    "sources": "authorizer.group('').resource('configmaps').namespace(object.spec.sourceNamespace)",
    "copy": "has(object.spec.destinationName) ? object.spec.destinationName : object.spec.configMapName",
    "copies": "authorizer.group('').resource('configmaps').namespace(variables.destination)",
}


def policy() -> list[Manifest]:
    """Return the policies and their bindings."""
    checks = authors(
        PLURAL,
        _VARIABLES,
        account(),
        _source(),
        *map(_destination, ("create", "update", "delete")),
        *map(_source_written, ("create", "update")),
        _destination_read(),
    )
    copies = removal(
        "variables.copies.name(variables.copy).check('delete').allowed()",
        "'delete ConfigMaps in ' + variables.destinationWords",
    )
    left = account_taken_away(
        "authorizer.group('').resource('configmaps').check('delete').allowed()", "'delete ConfigMaps in all namespaces'"
    )
    return [*checks, *removers(PLURAL, _VARIABLES, copies, left)]


def _source() -> Validation:
    return without_account(
        "variables.sources.name(object.spec.configMapName).check('get').allowed()",
        f"""\
'you may not get the ConfigMap ' + object.spec.configMapName + ' in namespace ' + object.spec.sourceNamespace
+ ', so no sync may copy it for you: {OR_ACCOUNT}'""",
    )


def _destination(verb: str) -> Validation:
    # RBAC cannot limit `create` to a name, because the object does not exist yet.
    copy = "" if verb == "create" else ".name(variables.copy)"
    return without_account(
        f"variables.copies{copy}.check('{verb}').allowed()",
        f"""\
'you may not {verb} ConfigMaps in ' + variables.destinationWords
+ ', so no sync may do it for you: {OR_ACCOUNT}'""",
    )


def _source_written(verb: str) -> Validation:
    # An edit of the copy changes the source, and creates the source again if it was deleted.
    name = "" if verb == "create" else ".name(object.spec.configMapName)"
    return without_account(
        f"!variables.twoWay || variables.sources{name}.check('{verb}').allowed()",
        f"""\
'you may not {verb} the ConfigMap ' + object.spec.configMapName + ' in namespace ' + object.spec.sourceNamespace
+ ', so no sync may do it for you: write direction: OneWay, {OR_ACCOUNT}'""",
    )


def _destination_read() -> Validation:
    # The content of the copy is written to the source, where the author can read it.
    return without_account(
        "!variables.twoWay || variables.copies.name(variables.copy).check('get').allowed()",
        f"""\
'you may not get the ConfigMap ' + variables.copy + ' in ' + variables.destinationWords
+ ', so no sync may copy its edits for you: write direction: OneWay, {OR_ACCOUNT}'""",
    )
