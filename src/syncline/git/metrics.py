"""What is counted about Git."""

from prometheus_client import Counter, Histogram

CHECKS = Counter("syncline_git_checks_total", "Times a Git server was asked what it has.", ["result"])
FETCHES = Counter("syncline_git_fetches_total", "Fetches of commits into mirrors.", ["result"])
FETCH_SECONDS = Histogram(
    "syncline_git_fetch_duration_seconds", "Duration of fetches.", buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300)
)
