"""Sources of desired objects: objects read from a cluster, or files of Git built into manifests.

Not here: where desired objects go and how they are written (`targets`), and how Git is fetched (`syncline.git`) or
manifests are rendered (`syncline.render`).
"""
