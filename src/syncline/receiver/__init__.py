"""Push webhooks: Git hosts and delivery tools report a push, and the operator checks the repository immediately.

`server` answers requests, `signatures` authenticates them, `limits` knows repeated deliveries, `forwarded` finds the
sender behind proxies. `syncline.core.pushes` parses a message. The message is only a hint. This package does not know
the syncs and their secrets: the caller passes them.
"""

from syncline.receiver.forwarded import Network, read_networks
from syncline.receiver.server import OutdatedRequestError, Receiver, RequestRefusedError

__all__ = ["Network", "OutdatedRequestError", "Receiver", "RequestRefusedError", "read_networks"]
