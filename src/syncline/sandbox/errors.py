"""The error of a sandbox."""


class SandboxError(Exception):
    """A sandbox failed. The message names the cause and the remedy."""
