"""The error of a sandbox."""


class SandboxError(Exception):
    """A sandbox could not do what was asked; the message tells a person what happened and what to do."""
