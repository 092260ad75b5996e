"""What the operator was told about tenants: whose rights a sync acts with, and what it may ask for."""

from msgspec import Struct

from syncline.controllers.reporting import Problem
from syncline.core.durations import seconds
from syncline.engine.own_rights import OwnRights

_NOTHING_OF_ITS_OWN = (
    "set serviceAccountName to an account of this namespace that has the rights, or install with --rights config: this "
    "operator writes nothing in its own name, its profile of rights is none"
)


class Tenancy(Struct, frozen=True, kw_only=True):
    """The operator's flags about tenants."""

    guarded: frozenset[str] = frozenset()
    """Namespaces, names or globs, that only an exact name in a sync reaches."""
    default_account: str = ""
    require_account: bool = False
    min_interval: float = 10.0
    rights: OwnRights | None = None
    """What the operator may do in its own name."""

    def user(self, namespace: str, account: str | None) -> str | None:
        """Return whom a sync of this namespace acts as; None: the operator itself.

        Raises `Problem` where it must name an account and names none.
        """
        account = account or self.default_account
        if account:
            return f"system:serviceaccount:{namespace}:{account}"
        if self.require_account:
            message = "this operator acts only as service accounts: set serviceAccountName to one of this namespace"
            raise Problem("AccountRequired", message, stalled=True)
        if self.rights is not None and self.rights.profile == "none":
            raise Problem("AccountRequired", _NOTHING_OF_ITS_OWN, stalled=True)
        return None

    def interval(self, text: str) -> float:
        """Return an interval that a sync asks for, in seconds."""
        try:
            asked = seconds(text)
        except ValueError as error:
            raise Problem("InvalidSpec", f"interval: {error}", stalled=True) from error
        if asked < self.min_interval:
            message = f"interval {text} is shorter than this operator allows: at least {self.min_interval:g}s"
            raise Problem("InvalidSpec", message, stalled=True)
        return asked
