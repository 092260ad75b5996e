"""Publishes a tree of files into a live folder: staged, checked, file by file, with a manifest of the written files.

Knows nothing of Kubernetes, Git or Ignition. Deletes only files that its manifest lists.
"""
