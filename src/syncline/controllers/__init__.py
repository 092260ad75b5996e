"""One module a kind: how its spec is lowered to desired objects, and the story of one sync from top to bottom.

What all kinds share is in `syncline.engine`; what decides is in `syncline.core`.
"""
