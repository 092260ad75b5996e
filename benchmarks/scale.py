"""How large the benchmarks are: as large as the figures in docs/performance.md, unless `BENCH_SCALE` says otherwise."""

import os

_SCALE = float(os.environ.get("BENCH_SCALE", "1"))


def scaled(count: int, least: int = 1) -> int:
    """Return so many, by the factor that was asked for."""
    return max(least, round(count * _SCALE))
