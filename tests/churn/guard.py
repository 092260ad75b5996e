"""The deletion guard, as the audit log shows it: how much was removed that nobody has asked for."""

from collections.abc import Iterable, Sequence

from tests.churn.names import WIDE
from tests.churn.oracle import Deviation
from tests.churn.world import Write

WIDE_REF = "ConfigMapSync/home/wide"
WINDOW = 600.0
MOST = 10
# For how long after a confirmation removals are taken for what was confirmed. Meanwhile operator, API server and
# etcd may be frozen, one after the other.
CONFIRMED = 90.0


def overruns(writes: Iterable[Write], starts: Sequence[float], confirmed: Sequence[float]) -> list[Deviation]:
    """Find removals of the wide sync's copies beyond what goes unasked within ten minutes.

    The count begins anew where the operator starts, which counts in memory alone, and with each confirmation.
    """
    removed = [
        write.at
        for write in writes
        if write.verb == "delete" and write.name == "wide" and write.namespace in WIDE and write.code == 200
        if not any(at <= write.at <= at + CONFIRMED for at in confirmed)
    ]
    breaks = [*starts, *confirmed]
    for position, last in enumerate(removed):
        begin = max([last - WINDOW, *(at for at in breaks if at <= last)])
        within = [at for at in removed[: position + 1] if at >= begin]
        if len(within) > MOST:
            message = f"{len(within)} copies were removed within {last - within[0]:.0f} s, and nobody confirmed it"
            return [Deviation("guard is off", WIDE_REF, None, message)]
    return []
