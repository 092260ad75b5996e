"""Reconciles the kinds of Syncline: reads a spec, lowers it, and makes clusters match it.

Each sub-package has one duty: `kinds` read specs, `sources` return the desired objects, `targets` write and prune them
in clusters, `status` reports, and `gateways` serve files to the gateways of IgnitionSyncs. They import one way.
Decisions without a cluster are in `syncline.core`, and the write of one object is in `syncline.engine`.
"""
