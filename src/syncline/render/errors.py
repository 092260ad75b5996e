"""The errors of rendering.

RenderError
├── TransformError   the transform is wrong: its author must change it
├── BuildError       the files are wrong, or what the sync says of them: whoever pushed or wrote it must change it
└── RenderFailed     the work was stopped, or could not start: it may be tried again after `retry_after`

No message holds a value of the data, which may be secret.
"""


class RenderError(Exception):
    """The data could not be rendered; the message says why, without naming any value."""


class TransformError(RenderError):
    """A transform that cannot be carried out: which one, at which key, and why; for which target, if it depends.

    A template that is a text of its own, such as a patch, is no transform: `index` is None and `key` is empty.
    """

    def __init__(
        self, index: int | None, key: str, cause: str, *, line: int | None = None, target: str | None = None
    ) -> None:
        self.index = index
        self.key = key
        self.cause = cause
        self.line = line
        self.target = target
        places = [
            f"transforms[{index}]" if index is not None else "",
            f"key {key}" if key else "",
            f"line {line} of the template" if line else "",
            f"for {target}" if target else "",
        ]
        super().__init__(": ".join(filter(None, [", ".join(filter(None, places)), cause])))


class BuildError(RenderError):
    """Files that give no manifests: which file, at which line where that is known, and why.

    The message never quotes a file that was decrypted or may hold a Secret.
    """

    def __init__(self, cause: str, *, file: str = "", line: int = 0) -> None:
        self.cause = cause
        self.file = file
        self.line = line
        place = f"{file}, line {line}" if file and line else file
        super().__init__(f"{place}: {cause}" if place else cause)


class RenderFailed(RenderError):  # noqa: N818 - a failure of the work, not an error of its author
    """The work was stopped or could not be started; trying again before `retry_after` seconds is of no use."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(message)
