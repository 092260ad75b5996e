"""The rights that the author of an IgnitionSync needs.

The operator reads the Secrets of the sync, and mounts others into the pods of gateways. The author needs the right to
read each of them. Users who can create pods in the namespace decide which pods are gateways of the sync, and only they
choose an image for the agent.
"""

from syncline.api.ignition_annotations import REQUESTED_REF, REQUESTED_REF_AT
from syncline.api.ignitionsync import PLURAL
from syncline.deploy.policy.parts import (
    ACCOUNT,
    ACCOUNT_NEEDS,
    ACTING,
    OR_ACCOUNT,
    Needs,
    Validation,
    account,
    authors,
    name,
    references,
    removers,
    validation,
    without_account,
)
from syncline.deploy.text import Manifest

AUTHORS = name(PLURAL)
NEEDS: Needs = (
    (
        "is edited, gets an owner, or an annotation of `requestedAt`, `confirm-deletion`, `abandon`, `requested-ref`",
        "by its previous spec: `impersonate` on its service account, or without one `get` on its Secrets",
    ),
    ("is deleted", "`impersonate` on its service account, if it names one: gateways keep their files"),
    *ACCOUNT_NEEDS,
    (
        "names no service account",
        "`get` on each Secret of `git.auth`, `git.caSecretRef`, `webhook`, `gateway` and `snapshots.storage.s3`",
    ),
    ("... and headers of `apply.http`", "`get` on that Secret; for several Secrets, `get` on all Secrets"),
    ("chooses an image in `agent.image`", "`create` on pods, because the image runs in pods of the namespace"),
)

# Where a spec names one Secret each, and the message about it.
_REFERENCES = {
    "token": "git.auth.token.secretRef",
    "sshKey": "git.auth.sshKey.secretRef",
    "knownHosts": "git.auth.sshKey.knownHosts.secretRef",
    "githubApp": "git.auth.githubApp.privateKeySecretRef",
    "certificates": "git.caSecretRef",
    "webhook": "webhook.secretRef",
    "apiKey": "gateway.apiKeySecretRef",
    "accessKey": "snapshots.storage.s3.accessKeySecretRef",
    "secretKey": "snapshots.storage.s3.secretKeySecretRef",
}
_HEADERS = {
    "headers": """\
has(object.spec.apply) && has(object.spec.apply.http) && has(object.spec.apply.http.headers)
? object.spec.apply.http.headers.map(one, one.secretRef.name) : []""",
}
_IMAGE = {
    "image": " + ".join(f"object.spec.?agent.?image.?{part}.orValue('')" for part in ("repository", "tag", "digest"))
}


def policy() -> list[Manifest]:
    """Return the policies and their bindings."""
    secrets = {variable: _name_of(path) for variable, path in _REFERENCES.items()}
    variables = {**ACCOUNT, **secrets, **_HEADERS, **_IMAGE}
    checks = [*map(_readable, _REFERENCES.items()), references("", "secrets", "headers", "Secret")]
    acting = (*ACTING, REQUESTED_REF, REQUESTED_REF_AT)
    return [
        *authors(PLURAL, variables, account(), *checks, _own_image()),
        # The end of a sync removes nothing from gateways, so that it needs no Secret.
        *removers(PLURAL, variables, *map(_unless_deleted, checks), acting=acting),
    ]


def _name_of(path: str) -> str:
    """Return the name of the Secret at a path of the spec as CEL; empty if the spec has none."""
    return f"object.spec.?{'.?'.join(path.split('.'))}.?name.orValue('')"


def _readable(reference: tuple[str, str]) -> Validation:
    variable, path = reference
    return without_account(
        f"""\
variables.{variable} == ''
|| authorizer.group('').resource('secrets').namespace(request.namespace).name(variables.{variable})
.check('get').allowed()""",
        f"""\
'you may not get the Secret ' + variables.{variable} + ' (spec.{path}) in namespace ' + request.namespace
+ ', so no sync may use it for you: {OR_ACCOUNT}'""",
    )


def _own_image() -> Validation:
    """Return the check of whoever chooses an image. No service account of the sync stands for its author here."""
    return validation(
        """\
variables.image == ''
|| authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()""",
        """\
'you may not create pods in namespace ' + request.namespace
+ ', so you may not choose an image for them: ask for that right, or leave spec.agent.image out'""",
    )


def _unless_deleted(check: Validation) -> Validation:
    return {**check, "expression": f"request.operation == 'DELETE'\n|| {check['expression']}"}
