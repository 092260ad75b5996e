"""The names of the operator's own objects."""

NAMESPACE = "syncline-system"
SERVICE_ACCOUNT = "syncline"
DIGEST_KEY = "syncline-digest-key"
MARK_KEYS = "syncline-mark-keys"
SERVING_CA = "syncline-serving-ca"
IMAGE = "syncline:0.1.0"

METRICS_PORT = 8443
HEALTH_PORT = 8081
WEBHOOK_PORT = 8082
DEPOT_PORT = 8444
ADMISSION_PORT = 9443

AGGREGATE_LABEL = "syncline.dev/aggregate-to-operator"
TENANT_KINDS = "syncline.dev/tenant-kinds"
"""The annotation on the ClusterRole that is part of edit and admin: `all`, `none`, or plurals of kinds."""
GRANTED_LABEL = "syncline.dev/granted"
"""The label on roles and bindings that `syncline grant` created."""
SELECTOR = {"app.kubernetes.io/name": "syncline"}
LABELS = {**SELECTOR, "app.kubernetes.io/part-of": "syncline"}
