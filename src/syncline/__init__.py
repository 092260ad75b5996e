"""Syncline applies and copies configuration: from Git, between namespaces, between clusters, and into running pods.

A glossary for the whole package:

- *Sync*: an object of one of Syncline's kinds. It names a source and targets.
- *Source*: the object or repository that a sync copies or applies, with a revision.
- *Target*: one place that a sync writes to: (cluster, namespace, kind, name).
- *Managed object*: an object that a sync wrote or adopted, and owns.
- *Plan*: the action at each target, with its reason. It is pure (`syncline.core.plan`).
- *Outcome*: the result at one target. Status, events and metrics are computed from outcomes.
"""

__version__ = "0.1.0"
