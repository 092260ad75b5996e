"""The pure core: everything that decides, nothing that touches the world.

Read in this order: `objects` (the nouns), `digest`, `ownership` (whose is it?), `plan` (what to do at one target, and
why), `merge` (three-way, per key), `prune_plan` (which objects to prune, and the deletion guard), `outcome` (what
happened, for people). No clock, no network, no cluster: what they need is passed in.
"""
