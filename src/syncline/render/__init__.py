"""Untrusted work in confined worker processes: transforms of data, templates, and builds of manifests from files.

    transform_pool  transforms data, and renders texts such as patches and names, for each target
    build_pool      builds manifests from a tree of files: decrypted, templated, built by kustomize, helm or jsonnet
    inputs          tells which paths of the tree a build depends on
    validation      checks manifests against the schemas of a cluster
    workers         the processes, which have no network, no files, little memory and little time

Programs that are not ours run behind walls (`tool_process`, `syncline.confinement`). Nothing here reads or writes a
cluster, and nothing is fetched but the key of a SOPS file from a key service (`key_services`). Nothing here decides
what goes where. A worker imports this package, so it imports nothing itself.
"""
