"""What the policies of all kinds are made of.

One check of a right costs 350,000 of the 1,000,000 that an expression may spend and of the 10,000,000 of a policy, so
no expression makes more than two, and a sync that names many things needs the right without a name.
"""

import re
from collections.abc import Mapping, Sequence

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


ACTING = tuple(f"{GROUP}/{word}" for word in ("confirm-deletion", "abandon", "requestedAt", "resolve"))
"""The annotations of a sync that the operator acts on."""
# They delete what is in a namespace that goes, and what belongs to an object that is gone. Nobody holds them up.
CONTROLLERS = (
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
REMOVAL_NEEDS = (
    (
        "is deleted, edited, given an owner, or annotated with `confirm-deletion`, `abandon`, `requestedAt`, `resolve`",
        "for what it had: `impersonate` on its account, or without one `delete` on its copies, by the rules below",
    ),
)
REMOVER = {
    # Whoever carries out a removal: after an edit, the account of the new spec.
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
    """Return a policy over new and changed specs of a kind, and its binding."""
    changed = {
        "name": "spec-is-new-or-changed",
        "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
    }
    return _policy(name(plural), _rule(plural, "CREATE", "UPDATE"), [changed], variables, validations)


def removers(plural: str, variables: Mapping[str, str], *validations: Validation) -> list[Manifest]:
    """Return a policy over what may remove copies of a kind, and its binding; it is about the spec as it was.

    `variables` and `validations` are those of authors; the new object has no say in what there is to lose.
    """
    # The garbage collector deletes whatever has an owner that is gone: naming one is deleting.
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
|| {_cel(ACTING)}.exists(name, object.metadata.?annotations[?name].orValue('')
!= oldObject.metadata.?annotations[?name].orValue(''))""",
        },
    ]
    before = {key: _of_old(expression) for key, expression in variables.items() if key not in REMOVER}
    old = [{key: _of_old(text) for key, text in one.items()} for one in validations]
    rule = _rule(plural, "UPDATE", "DELETE")
    return _policy(f"{plural}-removers.{GROUP}", rule, conditions, {**REMOVER, **before}, [account(), *old])


def removal(expression: str, what: str) -> Validation:
    """Return a check of removals that are carried out with the operator's own rights; `what` is CEL."""
    return without_account(
        expression,
        f"""\
'you may not ' + {what} + ', and this may have Syncline do it: ask for that right, or ask somebody who has it'""",
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
