"""The errors of one API server.

    KubeError
    |-- ConfigError             a kubeconfig or the in-cluster settings cannot be used
    |-- Unreachable             no usable response; `ambiguous`: the request may have been executed
    |   |-- BadAnswer           an invalid response: not JSON, an unexpected type, too large
    |   `-- Untrusted           its certificate is not trusted
    |-- KindNotServed           the server does not serve the kind; the message names the remedy
    |-- CacheFull               there are more objects than the operator keeps of a cluster
    |-- NothingDelivered        watches open, but bring nothing
    `-- ApiError                the server refused the request
        |-- BadRequest          400
        |-- Unauthorized        401
        |-- Forbidden           403
        |-- NotFound            404
        |-- AlreadyExists       409, reason AlreadyExists
        |-- Conflict            409
        |-- Gone                410, also reason Expired
        |-- Invalid             422
        |-- TooManyRequests     429
        `-- ServerError         5xx

`str()` is a message for people. No error contains a token or the content of a Secret.
"""

# ruff: noqa: N818  # states have the names that the API server gives them

import re

import msgspec

_MESSAGE_LIMIT = 2048
_MAX_CAUSES = 10
# A longer text quotes the object.
_SENTENCE = 300
# A webhook can choose any reason. A text that is not one word becomes part of the message.
_is_word = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}").fullmatch


class KubeError(Exception):
    """The base class of all errors of this package."""


class ConfigError(KubeError):
    """The settings of a connection are not valid. The message is one line with the remedy."""


class Unreachable(KubeError):
    """No usable answer: connect failure, time-out, reset, broken TLS.

    `ambiguous` is true if a write may have been executed anyway: read before you repeat it. `vague` is true if the
    message says that there was no answer, but not why.
    """

    def __init__(self, message: str, *, ambiguous: bool = False, vague: bool = False) -> None:
        super().__init__(message)
        self.ambiguous = ambiguous
        self.vague = vague


class BadAnswer(Unreachable):
    """The server sent an invalid response."""


class Untrusted(Unreachable):
    """The certificate of the server is not trusted. Nothing was sent to it."""


class KindNotServed(KubeError):
    """The server does not serve the kind.

    `certain` is false if the part of the server for this group does not answer: the kind may exist.
    """

    def __init__(self, message: str, *, certain: bool = True) -> None:
        super().__init__(message)
        self.certain = certain


class CacheFull(KubeError):
    """A cluster has more objects than the operator has room for."""


class NothingDelivered(KubeError):
    """Watches of a kind open, but bring nothing, not even the refusal of a version that is too old."""

    def __init__(self, resource: str) -> None:
        super().__init__(
            f"cannot watch {resource}: watches open, but bring nothing, because a proxy or the API server holds the "
            "events back; have it pass on every line at once. Until then, the operator lists again about every minute"
        )


class ApiError(KubeError):
    """The server refused the request with a reason."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        verb: str,
        resource: str,
        namespace: str | None = None,
        name: str | None = None,
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
        fields: tuple[str, ...] = (),
        about: str = "",
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.verb = verb
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.retry_after = retry_after
        self.causes = causes
        """Machine-readable reasons of the details, such as `ResourceVersionTooLarge`."""
        self.fields = fields
        """The fields that the server names, such as `spec.ports[0].nodePort`."""
        self.about = about
        """The name of the object in the answer; empty if there is none, as for an unknown kind."""

    def __str__(self) -> str:
        place = f" {self.name!r}" if self.name else ""
        place += f" in namespace {self.namespace!r}" if self.namespace else ""
        said = f": {self.message}" if self.message else ""
        return f"cannot {self.verb} {self.resource}{place}: {self.status} {self.reason}{said}"


class BadRequest(ApiError):
    """400: the request is not valid for the server."""


class Unauthorized(ApiError):
    """401: the server does not accept the credential."""


class Forbidden(ApiError):
    """403: the user lacks the right, or a policy refuses."""


class NotFound(ApiError):
    """404: the object, its namespace or its kind does not exist."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Conflict(ApiError):
    """409: the object changed since it was read, or a precondition does not hold."""


class Gone(ApiError):
    """410: the version or continue token is too old; list anew."""


class Invalid(ApiError):
    """422: the object breaks a rule of its schema."""


class TooManyRequests(ApiError):
    """429: too many requests; nothing was executed."""


class ServerError(ApiError):
    """5xx: the server failed."""


class Cause(msgspec.Struct, frozen=True):
    """One detail of a refusal."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The details of a `Status`."""

    name: str = ""
    causes: list[Cause] | None = None
    retry_after_seconds: float = 0


class Status(msgspec.Struct, frozen=True):
    """The object that an API server sends instead of the requested object."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: dict[str, type[ApiError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone, "Gone": Gone}
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)

# The server's message for a missing right: the user, the verb, the resource and the namespace.
_RIGHTS = re.compile(
    r'secrets(?: "[a-z0-9.-]*")? is forbidden: User "[^"\n]{1,300}" cannot [a-z]+ resource "secrets" in API group ""'
    r"(?: in the namespace \"[a-z0-9-]+\"| at the cluster scope)"
)
# Its message for a quota, and the name of the policy or webhook that denied. The rest may quote the Secret.
_QUOTA = re.compile(
    r'secrets "[a-z0-9.-]*" is forbidden: exceeded quota: [a-z0-9.-]+(?:, (?:requested|used|limited): [\w./=,-]+)*'
)
_DENIED = re.compile(
    r"(?:secrets \"[a-z0-9.-]*\" is forbidden: )?"
    r"(ValidatingAdmissionPolicy '[^'\n]{1,253}' with binding '[^'\n]{1,253}' denied request"
    r'|admission webhook "[^"\n]{1,253}" denied the request)'
)
_decode_status = msgspec.json.Decoder(Status).decode


def read_status(body: bytes) -> Status:
    """Parse a `Status`; another body gives an empty one."""
    try:
        return _decode_status(body)
    except (ValueError, RecursionError):
        return Status()


def from_response(
    status: int,
    body: bytes,
    *,
    verb: str,
    resource: str,
    namespace: str | None = None,
    name: str | None = None,
    retry_after: str | None = None,
) -> ApiError:
    """Return the `ApiError` for a refusal; `retry_after` is the value of the header."""
    return from_status(
        read_status(body),
        status,
        verb=verb,
        resource=resource,
        namespace=namespace,
        name=name,
        retry_after=retry_after,
    )


def from_status(
    said: Status,
    status: int = 0,
    *,
    verb: str,
    resource: str,
    namespace: str | None = None,
    name: str | None = None,
    retry_after: str | None = None,
) -> ApiError:
    """Return the `ApiError` for a `Status` of a response or of a watch."""
    status = status or said.code
    kind = _BY_REASON.get(said.reason) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status in _SERVER_ERRORS else ApiError
    reason = said.reason
    if not _is_word(reason):
        reason = "Redirect" if status in _REDIRECTS else kind.__name__
    causes = (said.details.causes if said.details else None) or []
    return kind(
        status,
        reason,
        _message(said, causes, resource),
        verb=verb,
        resource=resource,
        namespace=namespace,
        name=name,
        retry_after=_retry_after(retry_after, said),
        causes=tuple(cause.reason for cause in causes[:_MAX_CAUSES] if cause.reason),
        fields=tuple(cause.field for cause in causes[:_MAX_CAUSES] if cause.field),
        about=said.details.name if said.details else "",
    )


def _message(said: Status, causes: list[Cause], resource: str) -> str:
    if resource != "secrets":
        quotes = len(said.message) > _SENTENCE or "\n" in said.message
        words = [
            f"{cause.field}: {_brief(cause.message)}" if cause.field else _brief(cause.message)
            for cause in causes[:_MAX_CAUSES]
            if cause.message
        ]
        message = "; ".join(words) if quotes and words else said.message
        if said.reason and not _is_word(said.reason) and said.reason not in message:
            message = f"{said.reason}: {message}" if message else said.reason
        return message[:_MESSAGE_LIMIT]
    if said.reason == "Forbidden" and (_RIGHTS.fullmatch(said.message) or _QUOTA.fullmatch(said.message)):
        return said.message[:_MESSAGE_LIMIT]
    if denied := _DENIED.match(said.message):
        return denied[1]
    # The server quotes refused values. If they may be secret, only the names of the fields are kept.
    fields = [cause.field for cause in causes[:_MAX_CAUSES] if cause.field]
    return f"see {', '.join(fields)}"[:_MESSAGE_LIMIT] if fields else ""


def _brief(message: str) -> str:
    """Remove quoted text, which may be a whole object or a diff. The cause is before or after it."""
    line = message.partition("\n")[0]
    return line if len(line) <= _SENTENCE else f"{line.partition(': ')[0]}: {line.rpartition(': ')[2]}"


def _retry_after(header: str | None, said: Status) -> float | None:
    try:
        seconds = float(header or "")
    except ValueError:  # absent, or a date: the details have it in seconds
        seconds = said.details.retry_after_seconds if said.details else 0.0
    return seconds if seconds > 0 else None
