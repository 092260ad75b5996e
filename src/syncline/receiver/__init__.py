"""Push webhooks: Git hosts and delivery tools say that there is something new, and a sync looks at once.

`server` answers requests, `proofs` tells whether one may speak for a sync, `limits` keeps it cheap to refuse the rest.
What a message says is read by `syncline.core.pushes`; it is only a hint. Which syncs there are, what their secrets are
and what a push means for them is not known here: the caller tells.
"""

from syncline.receiver.server import Receiver

__all__ = ["Receiver"]
