"""The targets of desired objects: clusters, namespaces, and the steps that apply, prune and preview them.

Not here: what is desired (`sources`), and how a single object is planned and written (`syncline.engine`).
"""
