"""The connection to an API server: kubeconfig files, and the settings of a pod.

This is an own loader, because other loaders execute a file before it can be checked: they run commands, open files and
disable TLS. A kubeconfig of a tenant (`trusted=False`) can contain only a server, its certificate authority and one
credential, all inline. All other fields are refused by name.
"""

import base64
import binascii
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from msgspec import Struct, convert, field

from syncline.kube.errors import ConfigError

MAX_SIZE = 1024 * 1024
MAX_DEPTH = 32
MAX_EVENTS = 20_000
"""The most keys and values of a kubeconfig, about: a file with 500 contexts has fewer."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME_KUBECONFIG = Path(".kube") / "config"
_LONGEST_NAME = 80
_FIELD = re.compile(r"[a-zA-Z]{1,24}(-[a-z]{1,16}){0,4}")

_INLINE_CLUSTER = {"server", "certificate-authority-data", "tls-server-name", "disable-compression", "extensions"}
_INLINE_USER = {"token", "client-certificate-data", "client-key-data", "extensions"}
_NEVER_USER = {
    "auth-provider": "it was removed from Kubernetes; use exec or a token",
    "username": "basic authentication was removed from Kubernetes; use a token",
    "password": "basic authentication was removed from Kubernetes; use a token",
    "as": "impersonation in a kubeconfig is not supported; remove it",
    "as-uid": "impersonation in a kubeconfig is not supported; remove it",
    "as-groups": "impersonation in a kubeconfig is not supported; remove it",
    "as-user-extra": "impersonation in a kubeconfig is not supported; remove it",
}


class ExecPlugin(Struct, frozen=True):
    """A command that prints a credential (client.authentication.k8s.io)."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str
    cluster_info: bool
    hint: str


class Connection(Struct, frozen=True, kw_only=True):
    """The settings of a connection to one API server. At most one of the token sources is set."""

    server: str
    name: str
    """For people: the context, or `in-cluster`."""
    namespace: str = "default"
    ca_pem: bytes | None = None
    tls_server_name: str | None = None
    verify_tls: bool = True
    client_cert_pem: bytes | None = None
    client_key_pem: bytes | None = None
    token: str | None = None
    token_file: Path | None = None
    exec_plugin: ExecPlugin | None = None
    proxy_url: str | None = None

    def __repr__(self) -> str:
        """Name the connection without its credentials."""
        return f"Connection({self.name!r}, {self.server!r})"


def discover(path: str | Path | None = None, context: str | None = None) -> Connection:
    """Find the API server like other Kubernetes tools.

    The given file, else KUBECONFIG, else the settings of the pod that we run in, else ~/.kube/config.
    """
    if path is None and not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    return load_kubeconfig(path, context)


def in_cluster() -> Connection:
    """Return the connection of the pod that we run in, by its mounted ServiceAccount."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST is not set; name a kubeconfig instead")
    if ":" in host:
        host = f"[{host}]"
    token_file = SERVICE_ACCOUNT / "token"
    if not token_file.is_file():
        raise ConfigError(f"no ServiceAccount token at {token_file}: set automountServiceAccountToken for this pod")
    return Connection(
        server=f"https://{host}:{port}",
        name="in-cluster",
        namespace=_read(SERVICE_ACCOUNT / "namespace").decode().strip() or "default",
        ca_pem=_read(SERVICE_ACCOUNT / "ca.crt"),
        token_file=token_file,
    )


def load_kubeconfig(path: str | Path | None = None, context: str | None = None, *, trusted: bool = True) -> Connection:
    """Load a kubeconfig file; without a path, those of KUBECONFIG merged, else ~/.kube/config.

    When files are merged, the first to name an entry wins, as with kubectl, and missing files are passed over.
    """
    if path is not None:
        files = [Path(path)]
    elif listed := os.environ.get("KUBECONFIG"):
        named = [Path(part) for part in listed.split(os.pathsep) if part]
        files = [file for file in named if file.is_file()]
        if not files:
            raise ConfigError(f"KUBECONFIG names no file that exists: {listed}")
    else:
        files = [Path.home() / HOME_KUBECONFIG]
    merged = _Kubeconfig()
    for file in files:
        try:
            merged.add(_parse(_read(file), trusted=trusted, base_dir=file.absolute().parent))
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}" if str(file) not in str(error) else str(error)) from None
    return merged.connection(context)


def parse_kubeconfig(
    text: str | bytes, *, trusted: bool, base_dir: Path | None = None, context: str | None = None
) -> Connection:
    """Read the text of one kubeconfig. File paths in it are relative to `base_dir`, and refused without one."""
    content = text.encode() if isinstance(text, str) else text
    return _parse(content, trusted=trusted, base_dir=base_dir).connection(context)


class _KubeconfigEntry(Struct):
    name: str
    cluster: dict[str, Any] = field(default_factory=dict)
    user: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    base_dir: Path | None = None


class _Kubeconfig(Struct, rename={"current_context": "current-context"}):
    clusters: list[_KubeconfigEntry] | None = None
    users: list[_KubeconfigEntry] | None = None
    contexts: list[_KubeconfigEntry] | None = None
    current_context: str | None = None

    def add(self, other: "_Kubeconfig") -> None:
        """Append another file; the first to name an entry wins, so that order is all that merging needs."""
        self.clusters = [*(self.clusters or ()), *(other.clusters or ())]
        self.users = [*(self.users or ()), *(other.users or ())]
        self.contexts = [*(self.contexts or ()), *(other.contexts or ())]
        self.current_context = self.current_context or other.current_context

    def connection(self, context: str | None) -> Connection:
        wanted = context or self.current_context
        if not wanted:
            raise ConfigError("no context is selected: set current-context or name one")
        chosen = _named(self.contexts, wanted, "context").context
        cluster = _named(self.clusters, _text(chosen, "cluster", "context") or "", "cluster")
        user_name = _text(chosen, "user", "context")
        user = _named(self.users, user_name, "user") if user_name else _KubeconfigEntry("")
        return _connect(wanted, _text(chosen, "namespace", "context") or "default", cluster, user)


def _connect(name: str, namespace: str, cluster: _KubeconfigEntry, user: _KubeconfigEntry) -> Connection:
    server = _text(cluster.cluster, "server", "cluster") or ""
    if not is_server_url(server):
        raise ConfigError(f"cluster {_shown(cluster.name)}: server must be an https URL without user or query")
    proxy = _text(cluster.cluster, "proxy-url", "cluster")
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise ConfigError(f"cluster {_shown(cluster.name)}: proxy-url must be an http or https URL")
    cert, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if (cert is None) != (key is None):
        raise ConfigError(f"user {_shown(user.name)}: client-certificate and client-key are needed together")
    token_file = _file(user, _text(user.user, "tokenFile", "user"))
    exec_plugin = _exec(user)
    token = _text(user.user, "token", "user") if not token_file and not exec_plugin else None
    return Connection(
        server=server.rstrip("/"),
        name=name,
        namespace=namespace,
        ca_pem=_pem(cluster, "certificate-authority"),
        tls_server_name=_text(cluster.cluster, "tls-server-name", "cluster") or None,
        verify_tls=cluster.cluster.get("insecure-skip-tls-verify") is not True,
        client_cert_pem=cert,
        client_key_pem=key,
        token=token or None,
        token_file=token_file,
        exec_plugin=exec_plugin,
        proxy_url=proxy or None,
    )


def is_server_url(server: str) -> bool:
    """Return whether this is the address of an API server: http or https, a host, and no user, query or fragment."""
    try:
        url = urlsplit(server)
        addressed = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:  # a host or port that cannot be one
        return False
    plain = server.isascii() and server.isprintable() and " " not in server and "\\" not in server
    return plain and addressed and not ("@" in url.netloc or url.query or url.fragment)


def _exec(user: _KubeconfigEntry) -> ExecPlugin | None:
    spec = user.user.get("exec")
    if spec is None:
        return None
    if not isinstance(spec, Mapping):
        raise ConfigError(f"user {_shown(user.name)}: exec must be a mapping")
    version = _text(spec, "apiVersion", "exec") or ""
    if version not in {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}:
        raise ConfigError(f"user {_shown(user.name)}: exec needs apiVersion client.authentication.k8s.io/v1 or v1beta1")
    if _text(spec, "interactiveMode", "exec") == "Always":
        raise ConfigError(
            f"user {_shown(user.name)}: exec needs a terminal (interactiveMode Always), and there is none"
        )
    command = _text(spec, "command", "exec") or ""
    if not command:
        raise ConfigError(f"user {_shown(user.name)}: exec names no command")
    if os.sep in command and user.base_dir:
        command = str(user.base_dir / command)
    try:
        args = convert(spec.get("args") or (), tuple[str, ...])
        env = convert(spec.get("env") or (), tuple[dict[str, str], ...])
    except ValueError:
        raise ConfigError(
            f"user {_shown(user.name)}: exec args and env must be lists of strings and name/value pairs"
        ) from None
    return ExecPlugin(
        command=command,
        args=args,
        env=tuple((pair.get("name", ""), pair.get("value", "")) for pair in env),
        api_version=version,
        cluster_info=spec.get("provideClusterInfo") is True,
        hint=_text(spec, "installHint", "exec") or "",
    )


def _parse(content: bytes, *, trusted: bool, base_dir: Path | None) -> _Kubeconfig:
    """Parse and validate one file, without executing any of its settings."""
    document = _load_yaml(content)
    try:
        config = convert(document, _Kubeconfig)
    except ValueError:
        raise ConfigError("not a kubeconfig: clusters, users and contexts must be lists of named entries") from None
    for entry in (*(config.clusters or ()), *(config.users or ())):
        entry.base_dir = base_dir if trusted else None
        for key, why in _NEVER_USER.items():
            if key in entry.user:
                raise ConfigError(f"user {_shown(entry.name)}: {key} is not accepted: {why}")
        if not trusted:
            _validate(entry)
    return config


def _validate(entry: _KubeconfigEntry) -> None:
    for kind, settings, allowed in (
        ("cluster", entry.cluster, _INLINE_CLUSTER),
        ("user", entry.user, _INLINE_USER),
    ):
        for key in settings:
            if key not in allowed:
                raise ConfigError(
                    f"{kind} {_shown(entry.name)}: {_field(key)} is not accepted in this kubeconfig; it may hold only "
                    "a server, its CA data, and a token or client certificate data "
                    "(kubectl config view --minify --flatten)"
                )
    server = entry.cluster.get("server")
    if isinstance(server, str) and not server.lower().startswith("https://"):
        raise ConfigError(f"cluster {_shown(entry.name)}: server must be an https URL")


def _shown(name: str) -> str:
    """Quote the name of an entry: what a person needs to find it, and no more than fits a line."""
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "...")


def _field(key: str) -> str:
    """Name a field that looks like one. After a slip of indentation, a secret may stand where a field should."""
    return key if _FIELD.fullmatch(key) else "an unknown field"


def _named(entries: list[_KubeconfigEntry] | None, name: str, kind: str) -> _KubeconfigEntry:
    for entry in entries or ():
        if entry.name == name:
            return entry
    raise ConfigError(f"there is no {kind} {_shown(name)}")


def _text(settings: Mapping[str, Any], key: str, kind: str) -> str | None:
    value = settings.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{kind}: {key} must be a string (put it in quotes)")
    return value


def _pem(entry: _KubeconfigEntry, key: str) -> bytes | None:
    settings = entry.user or entry.cluster
    if data := _text(settings, f"{key}-data", entry.name):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{_shown(entry.name)}: {key}-data is not base64") from None
    path = _file(entry, _text(settings, key, entry.name))
    return _read(path) if path else None


def _file(entry: _KubeconfigEntry, path: str | None) -> Path | None:
    if not path:
        return None
    if entry.base_dir is None:
        raise ConfigError(f"{_shown(entry.name)}: references to files are not accepted; write the content inline")
    return entry.base_dir / path


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > MAX_SIZE:
        raise ConfigError(f"{path} is larger than 1 MiB")
    return content


class _StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml where it is built in
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in [self.construct_object(key) for key, _ in node.value]:
            if not isinstance(key, str):
                raise ConfigError(f"line {node.start_mark.line + 1}: keys must be strings")
            if key in seen:
                raise ConfigError(f"line {node.start_mark.line + 1}: {_field(key)} is given twice")
            seen.add(key)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the meanings of plain texts: not numbers to the base of 60, whose digits can take seconds."""
    kept = {
        first: [pair for pair in pairs if pair[0].endswith((":bool", ":null"))]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for first in "-+0123456789":
        kept.setdefault(first, []).append(("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})\Z")))
    return kept


_StrictLoader.yaml_implicit_resolvers = _resolvers()


def _load_yaml(content: bytes) -> Any:
    if len(content) > MAX_SIZE:
        raise ConfigError("the kubeconfig is larger than 1 MiB")
    try:
        _check_shape(yaml.parse(content, Loader=_StrictLoader))
        return yaml.load(content, Loader=_StrictLoader)  # noqa: S506  # a SafeLoader underneath
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(f"not valid YAML{where}") from None


def _check_shape(events: Iterator[yaml.Event]) -> None:
    """Refuse aliases and deep nesting, which would need too much memory. Events are flat, so this check is cheap."""
    depth = 0
    for number, event in enumerate(events):
        if number > MAX_EVENTS:
            raise ConfigError("too many keys and values to be a kubeconfig")
        if isinstance(event, yaml.AliasEvent):
            # The alias is not quoted: a password that begins with an asterisk reads as one.
            where = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            raise ConfigError(f"{where}YAML aliases are not accepted; a value that begins with * needs quotes")
        if getattr(event, "tag", None):
            raise ConfigError("YAML tags are not accepted: remove them (!...)")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ConfigError("nested too deeply to be a kubeconfig")
