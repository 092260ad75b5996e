"""What Syncline costs, on a real control plane, as ratios made in one run. `python -m benchmarks --help` tells more.

Each benchmark is a module with a `run(stage)` that returns the figures it made; it has a sandbox of its own, and the
operator runs as users run it: its own process, its own ServiceAccount, the shipped role.
"""
