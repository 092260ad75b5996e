"""The rules for retries of requests. Pure: the client waits."""

import random

from msgspec import Struct

from syncline.kube.errors import ApiError, BadAnswer, KubeError, ServerError, TooManyRequests, Unreachable

RETRY_AFTER_CAP = 30.0
_UNAVAILABLE = 503


class Retry(Struct, frozen=True):
    """The number and the duration of the retries of a request."""

    tries: int = 5
    budget: float = 60.0
    """The maximum seconds between the first attempt and the start of the last."""
    first: float = 0.2
    cap: float = 5.0

    def delay(self, failure: KubeError, *, reads: bool, attempt: int, elapsed: float) -> float | None:
        """Return the delay after the given attempt (1 is the first); None: no retry."""
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
    """Whether a retry of the request is safe and can help.

    A read is repeated after every temporary failure. A write is repeated only if it was certainly not executed: there
    was no connection, or the server refused it before execution (429, 503 with Retry-After). After other failures of a
    write, the caller can read the object.
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
