"""The metrics of Git."""

from prometheus_client import Counter, Histogram

CHECKS = Counter(
    "syncline_git_checks_total", "Number of checks of Git servers for new revisions, by result.", ["result"]
)
FETCHES = Counter("syncline_git_fetches_total", "Number of fetches of commits into mirrors, by result.", ["result"])
FETCH_SECONDS = Histogram(
    "syncline_git_fetch_duration_seconds", "Duration of fetches.", buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300)
)
