"""`python -m tests.churn --minutes 60 --seed 7 --width 4`."""

import argparse
import logging
import secrets
import shutil
import sys
from pathlib import Path

from tests.churn.run import Churn, Plan

_KEPT = Path("build/churn")


def main() -> int:
    """Run a churn and tell its verdict; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.churn", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--width", type=int, default=4, help="how many users work at a time")
    parser.add_argument("--replicas", type=int, default=1, help="how many operators there are, of which one leads")
    parser.add_argument("--far", action="store_true", help="with a second cluster")
    parser.add_argument("--calm", action="store_true", help="without faults")
    given = parser.parse_args()
    # Connections that are cut under way are what the proxy is for.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    seed = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    folder = _KEPT / f"seed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    plan = Plan(
        seconds=60 * given.minutes,
        seed=seed,
        width=given.width,
        replicas=given.replicas,
        trouble=not given.calm,
        far=given.far,
    )
    print(f"seed {seed}, {given.minutes:g} minutes, {given.width} at a time; evidence in {folder}", flush=True)
    verdict = Churn(plan, folder).run()
    text = verdict.text()
    (folder / "verdict.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if verdict.deviations else 0


if __name__ == "__main__":
    sys.exit(main())
