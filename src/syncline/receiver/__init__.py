"""Push webhooks: Git hosts and delivery tools report a push, and the operator checks the repository immediately.

`server` answers requests, `signatures` authenticates them, `limits` makes refusals cheap, `forwarded` finds the sender
behind proxies. `syncline.core.pushes` parses a message. The message is only a hint. This package does not know the
syncs and their secrets: the caller passes them.
"""

from syncline.receiver.forwarded import Network, read_networks
from syncline.receiver.server import Receiver

__all__ = ["Network", "Receiver", "read_networks"]
