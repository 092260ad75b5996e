"""The sidecar that keeps the folder of one gateway equal to its plan: fetch, check, publish, apply, verify, report.

It imports only what it needs, and has no rights in the cluster. Ignition is one of its adapters.
"""
