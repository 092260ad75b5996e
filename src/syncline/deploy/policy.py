"""The admission policy that checks the author of a sync: nobody gets through a sync what they may not do themselves.

The API server evaluates it, with no webhook to lose, on create and on every change of a spec. One check of a right
costs 350,000 of the 1,000,000 that an expression may spend, so no expression makes more than two.
"""

from syncline.api.common import GROUP, VERSION
from syncline.api.configmapsync import PLURAL
from syncline.deploy.names import LABELS
from syncline.deploy.text import Manifest

CONFIG_MAP_SYNC_AUTHORS = f"{PLURAL}-authors.{GROUP}"

_VARIABLES = {
    "account": "has(object.spec.serviceAccountName) ? object.spec.serviceAccountName : ''",
    "accounts": "authorizer.group('').resource('serviceaccounts').namespace(request.namespace)",
    "named": """\
(has(object.spec.destinationNamespace) ? [object.spec.destinationNamespace] : [])
+ (has(object.spec.destinationNamespaces) ? object.spec.destinationNamespaces : [])""",
    # The one namespace that the sync can write to, or '' (all namespaces) where it may be more than one.
    "destination": """\
has(object.spec.destinationNamespaceSelector)
|| variables.named.exists(name, name != variables.named[0] || name.contains('*') || name.contains('?'))
? '' : variables.named[0]""",
    "destinationWords": """\
variables.destination == '' ? 'all namespaces (this sync does not name exactly one)'
: 'namespace ' + variables.destination""",
    "copy": "has(object.spec.destinationName) ? object.spec.destinationName : object.spec.configMapName",
    "copies": "authorizer.group('').resource('configmaps').namespace(variables.destination)",
}
_OR_ACCOUNT = "ask for that right, or write spec.serviceAccountName with an account that has it"


def policy() -> list[Manifest]:
    """Return the ValidatingAdmissionPolicies of all kinds, each with its binding."""
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": CONFIG_MAP_SYNC_AUTHORS, "labels": LABELS},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [GROUP],
                            "apiVersions": [VERSION],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": [PLURAL],
                        }
                    ]
                },
                "matchConditions": [
                    {
                        "name": "spec-is-new-or-changed",
                        "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
                    }
                ],
                "variables": [{"name": name, "expression": expression} for name, expression in _VARIABLES.items()],
                "validations": [_account(), _source(), *map(_destination, ("create", "update", "delete"))],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": CONFIG_MAP_SYNC_AUTHORS, "labels": LABELS},
            "spec": {"policyName": CONFIG_MAP_SYNC_AUTHORS, "validationActions": ["Deny"]},
        },
    ]


def _account() -> dict[str, str]:
    return _validation(
        """\
variables.account == ''
|| variables.accounts.name(variables.account).check('impersonate').allowed()
|| variables.accounts.subresource('token').name(variables.account).check('create').allowed()""",
        """\
'you may not impersonate the service account ' + variables.account + ' of namespace ' + request.namespace
+ ', so no sync may act as it for you: ask for that right, or write an account that you may impersonate'""",
    )


def _source() -> dict[str, str]:
    return _validation(
        """\
variables.account != ''
|| authorizer.group('').resource('configmaps').namespace(object.spec.sourceNamespace)
.name(object.spec.configMapName).check('get').allowed()""",
        f"""\
'you may not get the ConfigMap ' + object.spec.configMapName + ' in namespace ' + object.spec.sourceNamespace
+ ', so no sync may copy it for you: {_OR_ACCOUNT}'""",
    )


def _destination(verb: str) -> dict[str, str]:
    # An object that does not exist yet has no name to grant a right for.
    copy = "" if verb == "create" else ".name(variables.copy)"
    return _validation(
        f"variables.account != '' || variables.copies{copy}.check('{verb}').allowed()",
        f"""\
'you may not {verb} ConfigMaps in ' + variables.destinationWords
+ ', so no sync may do it for you: {_OR_ACCOUNT}'""",
    )


def _validation(expression: str, message: str) -> dict[str, str]:
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}
