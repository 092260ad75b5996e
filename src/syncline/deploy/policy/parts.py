"""The parts of the policies of all kinds.

One check of a right costs 350,000. The limit of an expression is 1,000,000, and the limit of a policy is 10,000,000. An
expression therefore makes at most two checks, and a sync that names many objects needs the right without a name.
"""

import re
from collections.abc import Mapping, Sequence

from syncline.api.common import GROUP, VERSION
from syncline.deploy.names import LABELS
from syncline.deploy.text import Manifest

Validation = dict[str, str]
Needs = tuple[tuple[str, str], ...]
"""Properties of a sync, and the rights that its author needs for them: the text of the reference."""

OR_ACCOUNT = "ask for that right, or write spec.serviceAccountName with an account that has it"
EVERYTHING = "authorizer.group('*').resource('*').check('*').allowed()"
"""Whether the author has all rights. The policies check it if they cannot determine the necessary rights."""
ACCOUNT_NEEDS = (
    ("names a `serviceAccountName`", "only `impersonate` on that ServiceAccount, or `create` on its token"),
)
ACCOUNT = {
    "account": "has(object.spec.serviceAccountName) ? object.spec.serviceAccountName : ''",
    "accounts": "authorizer.group('').resource('serviceaccounts').namespace(request.namespace)",
}


ACTING = tuple(f"{GROUP}/{word}" for word in ("confirm-deletion", "abandon", "requestedAt", "resolve"))
"""The annotations of a sync that cause an action of the operator."""
# They delete the objects of a deleted namespace, and the dependents of a deleted owner. The policies do not block them.
CONTROLLERS = (
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
REMOVAL_NEEDS = (
    (
        "is deleted, edited, gets an owner, or an annotation `confirm-deletion`, `abandon`, `requestedAt`, `resolve`",
        "by its previous spec: `impersonate` on its service account, or without one `delete` on its copies, see below",
    ),
)
REMOVER = {
    # The account that makes a removal: after an edit, the account of the new spec.
    "account": """\
request.operation == 'DELETE' ? oldObject.spec.?serviceAccountName.orValue('')
: object.spec.?serviceAccountName.orValue('')""",
    "formerAccount": "oldObject.spec.?serviceAccountName.orValue('')",
    "accounts": "authorizer.group('').resource('serviceaccounts').namespace(request.namespace)",
}


def name(plural: str) -> str:
    """Return the name of the policy that checks authors of a kind."""
    return f"{plural}-authors.{GROUP}"


def authors(plural: str, variables: Mapping[str, str], *validations: Validation) -> list[Manifest]:
    """Return the policy for new and changed specs of a kind, and its binding."""
    changed = {
        "name": "spec-is-new-or-changed",
        "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
    }
    return _policy(name(plural), _rule(plural, "CREATE", "UPDATE"), [changed], variables, validations)


def removers(
    plural: str, variables: Mapping[str, str], *validations: Validation, acting: Sequence[str] = ACTING
) -> list[Manifest]:
    """Return the policy for changes that can remove copies of a kind, and its binding. It checks the previous spec.

    `variables` and `validations` are those of authors. The new object does not change which copies can be removed.
    `acting` are the annotations that cause an action of the operator.
    """
    # The garbage collector deletes each object whose owner does not exist. An owner reference can therefore delete the
    # sync.
    owners = "metadata.?ownerReferences.orValue([])"
    conditions = [
        {
            "name": "not-the-end-of-a-namespace-or-owner",
            "expression": f"!(request.userInfo.username in {_cel(CONTROLLERS)})",
        },
        {
            "name": "may-remove",
            "expression": f"""\
request.operation == 'DELETE'
? oldObject.spec.?deletionPolicy.orValue('Delete') != 'Orphan' && !oldObject.spec.?suspend.orValue(false)
: object.spec != oldObject.spec || object.{owners} != oldObject.{owners}
|| {_cel(acting)}.exists(name, object.metadata.?annotations[?name].orValue('')
!= oldObject.metadata.?annotations[?name].orValue(''))""",
        },
    ]
    before = {key: _of_old(expression) for key, expression in variables.items() if key not in REMOVER}
    old = [{key: _of_old(text) for key, text in one.items()} for one in validations]
    rule = _rule(plural, "UPDATE", "DELETE")
    return _policy(f"{plural}-removers.{GROUP}", rule, conditions, {**REMOVER, **before}, [account(), *old])


def removal(expression: str, what: str) -> Validation:
    """Return a check of removals that the operator makes with its own rights. `what` is CEL."""
    return without_account(
        expression,
        f"""\
'you may not ' + {what} + ', and this change can make Syncline do it: ask for that right, or ask a user who has it'""",
    )


def account_taken_away(expression: str, what: str) -> Validation:
    """Return a check of edits that take the account away; `what` is CEL.

    An account may leave behind what it may not remove, and no spec says where. Without the account, the operator's own
    rights would remove it.
    """
    return without_account(
        f"variables.formerAccount == '' || {expression}",
        f"""\
'you may not ' + {what} + ', and without its account this sync may remove what the account may not:'
+ ' keep spec.serviceAccountName, or delete the sync and write it anew'""",
    )


def _rule(plural: str, *operations: str) -> Manifest:
    return {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": list(operations), "resources": [plural]}


def _policy(
    name: str,
    rule: Manifest,
    conditions: list[dict[str, str]],
    variables: Mapping[str, str],
    validations: Sequence[Validation],
) -> list[Manifest]:
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": conditions,
                "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
                "validations": list(validations),
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _of_old(expression: str) -> str:
    return re.sub(r"(?<![A-Za-z.])object\.", "oldObject.", expression)


def _cel(texts: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{text}'" for text in texts) + "]"


def validation(expression: str, message: str) -> Validation:
    """Return a check with the CEL expression of its message."""
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def without_account(expression: str, message: str) -> Validation:
    """Return a check of syncs that the operator reconciles with its own rights."""
    return validation(f"variables.account != ''\n|| {expression}", message)


def account() -> Validation:
    """Return the check that the author can act as the service account of the sync. It needs `ACCOUNT`."""
    return validation(
        """\
variables.account == ''
|| variables.accounts.name(variables.account).check('impersonate').allowed()
|| variables.accounts.subresource('token').name(variables.account).check('create').allowed()""",
        """\
'you may not impersonate the service account ' + variables.account + ' of namespace ' + request.namespace
+ ', so no sync may act as it for you: ask for that right, or write an account that you may impersonate'""",
    )


def references(group: str, resource: str, names: str, kind: str) -> Validation:
    """Return the check that the author can get the objects in a variable, a list of names in the sync's namespace."""
    return without_account(
        f"""\
variables.{names}.size() == 0
|| authorizer.group('{group}').resource('{resource}').namespace(request.namespace)
.name(variables.{names}.exists(name, name != variables.{names}[0]) ? '' : variables.{names}[0])
.check('get').allowed()""",
        f"""\
'you may not get ' + (variables.{names}.exists(name, name != variables.{names}[0])
? 'every {kind} (this sync names several)' : 'the {kind} ' + variables.{names}[0])
+ ' in namespace ' + request.namespace + ', so no sync may use it for you: {OR_ACCOUNT}'""",
    )
