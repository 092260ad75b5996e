"""The address of an endpoint: `:8080`, `127.0.0.1:8080` or `[::1]:8080`. Port 0 selects a free port. `0` means off."""

import errno
import re
import socket

OFF = "0"

_BIND = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9.-]*)):(?P<port>[0-9]{1,5})")
_HIGHEST_PORT = 65535
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened at


class BindError(Exception):
    """An endpoint cannot listen at its address. The message is one line with the remedy."""


def listen(flag: str, bind: str) -> socket.socket:
    """Open a listening socket. An error names the flag."""
    found = _BIND.fullmatch(bind)
    if found is None or int(found["port"]) > _HIGHEST_PORT:
        raise BindError(
            f"{flag} {bind}: this is not an address; write :8080, 127.0.0.1:8080, [::1]:8080, or 0 to turn it off"
        )
    host, port = found["v6"] or found["host"] or "", int(found["port"])
    try:
        if host:
            return socket.create_server((host, port), family=socket.AF_INET6 if found["v6"] else socket.AF_INET)
        return _listen_everywhere(port)
    except OSError as error:
        raise BindError(f"{flag} {bind}: {_advice(error, flag, host, port)}") from None


def named_host(bind: str) -> str:
    """Return the host that an address names; empty for all addresses of the machine."""
    found = _BIND.fullmatch(bind)
    host = (found["v6"] or found["host"]) if found is not None else ""
    return "" if not host or host in _EVERYWHERE else host


def address_of(listening: socket.socket) -> str:
    """Return the actual `host:port`."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if listening.family == socket.AF_INET6 else f"{host}:{port}"


def _listen_everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            # The kernel supports IPv6, but IPv6 is disabled on this machine.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return socket.create_server(("", port))


def _advice(error: OSError, flag: str, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop the program that uses it, or choose another port with {flag}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"not allowed to listen on port {port}; choose port 1024 or higher with {flag}"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"this machine has no address {host}; choose an address of the machine, or :{port} for all addresses"
    return f"cannot listen: {error.strerror}"
