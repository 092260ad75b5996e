"""Whatever users do and whatever breaks: once it is quiet, everything is right, and nothing more is written."""

from pathlib import Path

import pytest
from tests.churn.run import Churn, Plan
from tests.sampling import dice


@pytest.mark.timeout(600)
def test_everything_is_right_once_it_is_quiet(tmp_path: Path) -> None:
    # The same users in each run, if not the same timing; `make churn` and `make explore` play others.
    seed = dice("churn").randrange(1_000_000)
    print(f"seed {seed}")
    # One phase that ends with its 80 operations, however long they take: so there is one check.
    plan = Plan(seconds=120, seed=seed, operations=80, phase=240, pace=3, rest=3, limit=180, late=0)
    verdict = Churn(plan, tmp_path).run()
    assert verdict.checks == 1
    assert not verdict.deviations, verdict.text()
