"""Push webhooks: Git hosts and delivery tools say that there is something new, and a sync looks at once.

`server` answers requests, `proofs` tells whether one may speak for a sync, `limits` keeps it cheap to refuse the rest,
`forwarded` tells who sends what comes through proxies.
What a message says is read by `syncline.core.pushes`; it is only a hint. Which syncs there are, what their secrets are
and what a push means for them is not known here: the caller tells.
"""

from syncline.receiver.forwarded import Network, read_networks
from syncline.receiver.server import Receiver

__all__ = ["Network", "Receiver", "read_networks"]
