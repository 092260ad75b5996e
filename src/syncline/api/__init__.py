"""The kinds: typed specs and statuses, one module for each kind.

The CRDs are generated from these types (`syncline.api.crd`). The API server and the operator therefore use the same
definition. This package makes no decisions.
"""
