"""Untrusted work in confined worker processes: transforms of data, templates, and builds of manifests from files.

    transform_pool  transforms data, and renders texts such as patches and names, for each target
    build_pool      builds manifests from a tree of files: decrypted, templated, built by kustomize, helm or jsonnet
    inputs          finds the paths of the tree that a build depends on
    validation      checks manifests against the schemas of a cluster
    workers         the processes, which have no network, no files, little memory and little time

External programs run confined (`tool_process`, `syncline.confinement`). This package does not read or write a cluster.
Its only requests are to key services, for the key of a SOPS file (`key_services`). It does not decide where objects go.
A worker imports this package, so the package itself imports nothing.
"""
