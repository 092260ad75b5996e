"""The kinds: typed specs and statuses, one module a kind.

The CRDs are generated from these types (`syncline.api.crd`), so what the API server checks and what the operator
reads is one definition. Nothing here decides anything.
"""
