"""The rules for retries of requests. Pure: the client waits."""

import random

from msgspec import Struct

from syncline.kube.errors import ApiError, BadAnswer, KubeError, ServerError, TooManyRequests, Unreachable

RETRY_AFTER_CAP = 30.0
_UNAVAILABLE = 503


class Retry(Struct, frozen=True):
    """How often and for how long a request is repeated."""

    tries: int = 5
    budget: float = 60.0
    """Seconds after the first try within which the last one must begin."""
    first: float = 0.2
    cap: float = 5.0

    def delay(self, failure: KubeError, *, reads: bool, attempt: int, elapsed: float) -> float | None:
        """Return how long to wait after the given attempt (1 is the first), or None: do not repeat."""
        if attempt >= self.tries or not may_repeat(failure, reads=reads):
            return None
        wait = min(self.cap, self.first * 2 ** (attempt - 1))
        asked = failure.retry_after if isinstance(failure, ApiError) else None
        if asked is None:
            wait *= random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
        else:
            wait = min(asked, RETRY_AFTER_CAP) + wait * random.random()  # noqa: S311  # never before what was asked
        return wait if elapsed + wait <= self.budget else None


def may_repeat(failure: KubeError, *, reads: bool) -> bool:
    """Tell whether sending the same request again is safe and may help.

    A read may be repeated after anything that may pass. A write only when it was surely not carried out: no connection
    was made, or the server turned it away at the door (429, 503 with Retry-After). Any other failed write is for the
    caller, who can read what became of it.
    """
    if isinstance(failure, TooManyRequests):
        return True
    if isinstance(failure, BadAnswer):
        return False
    if isinstance(failure, Unreachable):
        return reads or not failure.ambiguous
    if isinstance(failure, ServerError):
        return reads or (failure.status == _UNAVAILABLE and failure.retry_after is not None)
    return False
