"""The report of a sync: its status, events, log lines and metrics, made from the outcomes of one reconcile.

Not here: what a condition means (`syncline.core.conditions`), and how a status is stored (`syncline.engine`).
"""
