"""The errors of rendering.

RenderError
├── TransformError   the transform is not valid: its author must change it
├── BuildError       the files, or the fields of the sync about them, are not valid: their author must change them
└── RenderFailed     the work was stopped, or could not start: a retry is possible after `retry_after`

No message holds a value of the data, which may be secret.
"""


class RenderError(Exception):
    """The data could not be rendered. The message names the cause, without values."""


class TransformError(RenderError):
    """A transform that failed: its index, its key and the cause; and the target, if the result depends on it.

    A separate template, such as a patch, is not a transform: `index` is None and `key` is empty.
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
    """Files that give no manifests: the file, the line if it is known, and the cause.

    The message never quotes a file that was decrypted or may hold a Secret.
    """

    def __init__(self, cause: str, *, file: str = "", line: int = 0) -> None:
        self.cause = cause
        self.file = file
        self.line = line
        place = f"{file}, line {line}" if file and line else file
        super().__init__(f"{place}: {cause}" if place else cause)


class RenderFailed(RenderError):  # noqa: N818 - a failure of the work, not an error of its author
    """The work was stopped or could not be started. A retry before `retry_after` seconds does not help."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(message)
