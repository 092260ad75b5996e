"""What can go wrong with a sandbox, as one kind of error."""


class SandboxError(Exception):
    """A sandbox could not do what was asked; the message tells a person what happened and what to do."""
