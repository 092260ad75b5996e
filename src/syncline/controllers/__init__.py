"""Reconciles the kinds of Syncline: reads a spec, lowers it, and brings clusters to what it says.

Each sub-package is one duty: `kinds` read specs, `sources` say what is desired, `targets` hold where it goes and how it
is written and pruned, `status` reports. They import one way, in that order; what decides without a cluster is in
`syncline.core`, and how one object is written is in `syncline.engine`.
"""
