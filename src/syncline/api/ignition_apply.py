"""The reload of files by gateways, and the checks before a publish."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.duration import Duration
from syncline.api.ignition_files import DesignerSessionPolicy
from syncline.api.ignition_git import SecretKeySelector
from syncline.api.rules import ValidationRule, text

ApplyType = Literal["Ignition", "None", "HTTP", "Signal", "Command"]

Port = Annotated[int, Meta(ge=1, le=65535)]
WebAddress = Annotated[
    str,
    text(
        r"^https?://[^\s/?#@]+(/[^\s]*)?$",
        "write an address with http or https and without credentials, such as https://checks.example.com/ignition",
        max_length=2048,
    ),
]


class GatewayConnection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The API of the gateway, which the agent calls in its own pod."""

    port: Annotated[Port, Meta(description="The port of the gateway.")] = 8043
    tls: Annotated[bool, Meta(description="If true, the agent uses https. It is in the same pod as the gateway.")] = (
        True
    )
    api_key_secret_ref: Annotated[
        SecretKeySelector | None,
        Meta(
            description="The key of the Secret with the API key of the gateway, as `name:secret`. It is mounted into"
            " the pod; the operator does not read it. Required for `apply.type: Ignition`."
        ),
    ] = None


class IgnitionOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The behaviour towards Ignition gateways."""

    designer_session_policy: Annotated[
        DesignerSessionPolicy,
        Meta(
            description="Decides what happens if a designer has a changed project open. wait publishes when the session"
            " ends. proceed publishes. fail reports an error and publishes nothing."
        ),
    ] = "wait"
    perspective_session_policy: Annotated[
        str, Meta(max_length=63, description="Reported as unsupported if set: Perspective sessions are not waited for.")
    ] = ""
    redundancy_role: Annotated[
        str, Meta(max_length=63, description="Reported as unsupported if set: each pod is synced by itself.")
    ] = ""
    peer_gateway_name: Annotated[
        str, Meta(max_length=253, description="Reported as unsupported if set: each pod is synced by itself.")
    ] = ""


class ApplyHeader(Struct, frozen=True, kw_only=True, rename="camel"):
    """A header of the request, with its value in a Secret."""

    name: Annotated[
        Annotated[
            str,
            text(r"^[-a-zA-Z0-9]+$", 'write the name of a header: letters, digits and "-"', max_length=128),
        ],
        Meta(description="The name of the header."),
    ]
    secret_ref: Annotated[
        SecretKeySelector,
        Meta(
            description="The key of the Secret with the value. It is mounted into the pod; the operator does not read"
            " it."
        ),
    ]


class ApplyRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    """One HTTP request to the pod of the agent."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "duration(self.timeout) >= duration('1s') && duration(self.timeout) <= duration('5m')",
            "write a timeout from 1s to 5m, such as 10s",
            ".timeout",
        ),
    )

    port: Annotated[Port, Meta(description="The port, on the loopback address of the pod.")]
    path: Annotated[
        Annotated[
            str,
            text(r"^/[^\s#\x00-\x1f]*$", "write the path of the request, such as /-/reload", max_length=1024),
        ],
        Meta(description="The path, such as `/-/reload`."),
    ] = "/"
    method: Annotated[
        Literal["POST", "PUT", "GET", "PATCH"],
        Meta(description="The method of the request."),
    ] = "POST"
    tls: Annotated[
        bool, Meta(description="If true, the agent uses https. It checks no certificate of its own pod.")
    ] = False
    headers: Annotated[
        list[ApplyHeader], Meta(max_length=10, description="Headers with values in Secrets, such as Authorization.")
    ] = field(default_factory=list)
    expected_codes: Annotated[
        list[Annotated[int, Meta(ge=100, le=599)]],
        Meta(max_length=20, description="The codes of a success. Default: 200, 201, 202 and 204."),
    ] = field(default_factory=list)
    timeout: Annotated[Duration, Meta(description="The longest wait for the answer.")] = "10s"


class ApplySignal(Struct, frozen=True, kw_only=True, rename="camel"):
    """A signal to a process of the pod. The pod must set `shareProcessNamespace: true` itself."""

    process: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            description="The name of the program, such as `nginx`. Its child processes of the same name get no signal.",
        ),
    ]
    signal: Annotated[
        Literal["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM"],
        Meta(description="The signal."),
    ] = "SIGHUP"


class ApplyCommand(Struct, frozen=True, kw_only=True, rename="camel"):
    """A command in the container of the agent."""

    command: Annotated[
        list[Annotated[str, Meta(max_length=1024)]],
        Meta(min_length=1, max_length=50, description="The program and its arguments."),
    ]


def _only(field_name: str, type_: str) -> ValidationRule:
    return ValidationRule(
        f"has(self.{field_name}) == (self.type == '{type_}')",
        f"{field_name} belongs to type: {type_}: write both, or neither",
        f".{field_name}",
    )


class Apply(Struct, frozen=True, kw_only=True, rename="camel"):
    """How an application takes up files that were published."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        _only("http", "HTTP"),
        _only("signal", "Signal"),
        _only("command", "Command"),
    )

    type: Annotated[
        ApplyType,
        Meta(
            description="Ignition: scans of projects and configuration, under the scan lock of the gateway. HTTP: one"
            " request. Signal: a signal to a process, in pods with `shareProcessNamespace`. None: the application"
            " notices changes itself. Command is reported as unsupported, and nothing is published."
        ),
    ] = "Ignition"
    http: Annotated[ApplyRequest | None, Meta(description="For HTTP: the request.")] = None
    signal: Annotated[ApplySignal | None, Meta(description="For Signal: the signal.")] = None
    command: Annotated[ApplyCommand | None, Meta(description="For Command: the command.")] = None


class ValidationHook(Struct, frozen=True, kw_only=True, rename="camel"):
    """A service that can refuse files before they are published."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "duration(self.timeout) >= duration('1s') && duration(self.timeout) <= duration('5m')",
            "write a timeout from 1s to 5m, such as 10s",
            ".timeout",
        ),
    )

    url: Annotated[
        Annotated[
            str,
            text(
                r"^(https?://[^\s/?#@]+(/[^\s]*)?)?$",
                "write an address with http or https and without credentials, such as https://checks.example.com/files",
                min_length=0,
                max_length=2048,
            ),
        ],
        Meta(
            description="The address. Empty: no service. Agents POST the commit and the list of changed files. Any code"
            " other than 200 to 299 refuses them."
        ),
    ] = ""
    timeout: Annotated[Duration, Meta(description="The longest wait for the answer.")] = "10s"


class FileValidation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Checks before files are published. A failed check keeps the files of the gateway."""

    dry_run_before: Annotated[
        bool,
        Meta(
            description="Accepted from earlier configurations. Agents always stage and check files before the publish."
        ),
    ] = False
    webhook: Annotated[ValidationHook | None, Meta(description="A service that can refuse files.")] = None
