"""The right that the author of a SyncTarget needs: to read its credential."""

from syncline.api.synctarget import PLURAL
from syncline.deploy.policy.parts import Needs, authors, name, validation
from syncline.deploy.text import Manifest

AUTHORS = name(PLURAL)
NEEDS: Needs = (("names a Secret with its credential", "`get` on that Secret"),)

_VARIABLES = {
    "secret": """\
has(object.spec.connection.kubeconfigSecretRef) ? object.spec.connection.kubeconfigSecretRef.name
: object.spec.connection.serviceAccountTokenRef.name""",
}


def policy() -> list[Manifest]:
    """Return the policy and its binding."""
    return authors(
        PLURAL,
        _VARIABLES,
        validation(
            """\
authorizer.group('').resource('secrets').namespace(request.namespace).name(variables.secret)
.check('get').allowed()""",
            """\
'you may not get the Secret ' + variables.secret + ' in namespace ' + request.namespace
+ ', so no SyncTarget may use it for you: ask for that right, or ask somebody who has it to create the SyncTarget'""",
        ),
    )
