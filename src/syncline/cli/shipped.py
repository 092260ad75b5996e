"""The shipped objects of this version, in the form in which the operator and `syncline doctor` check them."""

from collections.abc import Iterator

from syncline import __version__, deploy
from syncline.deploy.rights import CORE, DIGEST_KEY_RIGHTS, LEASE, REVIEWS, Grant
from syncline.engine.selfcheck import Right, Shipped


def shipped(namespace: str) -> Shipped:
    """Return the objects that must exist for an operator in this namespace."""
    return Shipped(
        version=__version__,
        policies=deploy.policy(),
        crds=deploy.crds(),
        rights=[*_rights((*CORE, *REVIEWS), ""), *_rights((*LEASE, *DIGEST_KEY_RIGHTS), namespace)],
    )


def _rights(grants: tuple[Grant, ...], namespace: str) -> Iterator[Right]:
    for grant in grants:
        for resource in grant.resources:
            for verb in grant.verbs:
                for name in grant.names or ("",):
                    yield Right(grant.group, resource, verb, namespace, name)
