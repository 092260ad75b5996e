"""Carries out plans: observes targets, plans, writes, and says what happened.

The same for every kind: a kind lowers its spec to desired objects and removals, and this package brings them
about on a `Cluster`, many at a time, each write safe against everybody else's. It knows no kind of ours and decides
nothing that `syncline.core` could decide.
"""
