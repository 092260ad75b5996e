"""Executes plans: observes targets, plans, writes, and returns outcomes.

It is the same for every kind: a kind lowers its spec to desired objects and removals, and this package writes them to a
`Cluster`, many at a time. Each write is safe against writes of others. The package knows no kind of ours, and decides
nothing that `syncline.core` could decide.
"""
