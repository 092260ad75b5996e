"""What the policies of all kinds are made of.

One check of a right costs 350,000 of the 1,000,000 that an expression may spend and of the 10,000,000 of a policy, so
no expression makes more than two, and a sync that names many things needs the right without a name.
"""

from collections.abc import Mapping

from syncline.api.common import GROUP, VERSION
from syncline.deploy.names import LABELS
from syncline.deploy.text import Manifest

Validation = dict[str, str]
Needs = tuple[tuple[str, str], ...]
"""What a sync has, and what its author needs for it: the policy in words, for the reference."""

OR_ACCOUNT = "ask for that right, or write spec.serviceAccountName with an account that has it"
EVERYTHING = "authorizer.group('*').resource('*').check('*').allowed()"
"""Whether the author has all rights: asked for where it cannot be known which are needed."""
ACCOUNT_NEEDS = (
    ("names a `serviceAccountName`", "`impersonate` on that ServiceAccount, or `create` on its token; nothing else"),
)
ACCOUNT = {
    "account": "has(object.spec.serviceAccountName) ? object.spec.serviceAccountName : ''",
    "accounts": "authorizer.group('').resource('serviceaccounts').namespace(request.namespace)",
}


def name(plural: str) -> str:
    """Return the name of the policy that checks authors of a kind."""
    return f"{plural}-authors.{GROUP}"


def authors(plural: str, variables: Mapping[str, str], *validations: Validation) -> list[Manifest]:
    """Return a policy over new and changed specs of a kind, and its binding."""
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name(plural), "labels": LABELS},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [GROUP],
                            "apiVersions": [VERSION],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": [plural],
                        }
                    ]
                },
                "matchConditions": [
                    {
                        "name": "spec-is-new-or-changed",
                        "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
                    }
                ],
                "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
                "validations": list(validations),
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name(plural), "labels": LABELS},
            "spec": {"policyName": name(plural), "validationActions": ["Deny"]},
        },
    ]


def validation(expression: str, message: str) -> Validation:
    """Return a check, and the CEL expression of what the author is told who fails it."""
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def without_account(expression: str, message: str) -> Validation:
    """Return a check of syncs that are carried out with the operator's own rights."""
    return validation(f"variables.account != ''\n|| {expression}", message)


def account() -> Validation:
    """Return the check that the author may act as the account that the sync names; needs `ACCOUNT`."""
    return validation(
        """\
variables.account == ''
|| variables.accounts.name(variables.account).check('impersonate').allowed()
|| variables.accounts.subresource('token').name(variables.account).check('create').allowed()""",
        """\
'you may not impersonate the service account ' + variables.account + ' of namespace ' + request.namespace
+ ', so no sync may act as it for you: ask for that right, or write an account that you may impersonate'""",
    )
