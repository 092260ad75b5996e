"""What the operator's own objects are called, once."""

NAMESPACE = "syncline-system"
SERVICE_ACCOUNT = "syncline"
DIGEST_KEY = "syncline-digest-key"
MARK_KEYS = "syncline-mark-keys"
IMAGE = "syncline:0.1.0"

METRICS_PORT = 8443
HEALTH_PORT = 8081
WEBHOOK_PORT = 8082

AGGREGATE_LABEL = "syncline.dev/aggregate-to-operator"
TENANT_KINDS = "syncline.dev/tenant-kinds"
"""On the ClusterRole that is part of edit and admin: `all`, `none`, or the plurals of our kinds that they may write."""
GRANTED_LABEL = "syncline.dev/granted"
"""On roles and bindings that `syncline grant` has made."""
SELECTOR = {"app.kubernetes.io/name": "syncline"}
LABELS = {**SELECTOR, "app.kubernetes.io/part-of": "syncline"}
