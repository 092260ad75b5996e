"""One module a kind: its spec, lowered to what all kinds share, and the fields of status that only it has.

Not here: how a sync is reconciled (`reconciler`), and the types of the API (`syncline.api`).
"""
