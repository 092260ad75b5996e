"""The oracle: what must be so in the end, from specs, namespaces, sources and users' deeds; no code of the product."""

from tests.churn.oracle.deviation import Deviation
from tests.churn.oracle.judge import judge

__all__ = ["Deviation", "judge"]
