"""The gateways of IgnitionSyncs: their pods, their plans, the reports of their agents, and the commits of their edits.

A decision of the leader is recorded in the status of the sync. Every replica composes plans from this record, and not
from the memory of the leader. Not here: the authentication of agents (`syncline.depot`), and the publication of files
in a pod (`syncline.agent`).
"""
