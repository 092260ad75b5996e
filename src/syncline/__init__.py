"""Syncline keeps configuration in agreement: from Git, between namespaces, between clusters, and into running pods.

A glossary for the whole package:

- *Sync*: an object of one of our kinds; it says what should agree with what.
- *Source*: where the truth comes from, with a revision that names it.
- *Target*: one place to write: (cluster, namespace, kind, name).
- *Copy*: an object that a sync wrote at a target and owns.
- *Plan*: what to do at each target and why; pure (`syncline.core.plan`).
- *Outcome*: what happened at one target, and why; status, events and metrics are views of outcomes.
"""

__version__ = "0.1.0"
