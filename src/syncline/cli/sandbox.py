"""`syncline sandbox`: a control plane on this machine from the command line."""

import argparse
import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from syncline.sandbox import Options, Sandbox, SandboxError, find_binaries, find_kcp, link_tools, statuses

_Command = Callable[[argparse.Namespace], int]


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `sandbox` and its subcommands."""
    sandbox = subparsers.add_parser("sandbox", help="a Kubernetes control plane on this machine, without containers")
    commands = sandbox.add_subparsers(required=True, metavar="COMMAND")

    install = commands.add_parser(
        "install",
        help="download or build the binaries, and print their folder",
        description="Take the binaries from SYNCLINE_SANDBOX_BIN or KUBEBUILDER_ASSETS, from the user's cache, from"
        " the official releases (or their mirror, SYNCLINE_SANDBOX_MIRROR), or build them with Go.",
    )
    install.add_argument("--kcp", action="store_true", help="the binaries of kcp: etcd and kcp")
    install.set_defaults(func=_reported(_install))

    tools = commands.add_parser(
        "tools",
        help="download or build helm and kustomize, and install them next to this command",
        description="Take them from the user's cache, from the official releases (or their mirror,"
        " SYNCLINE_SANDBOX_MIRROR), or build them with Go.",
    )
    tools.set_defaults(func=_reported(_tools))

    up = commands.add_parser(
        "up", help="start a sandbox that runs until `down`; the last line of the output is its kubeconfig"
    )
    _add_name(up)
    up.add_argument(
        "--kcp", action="store_true", help="a kcp instead of a cluster; the kubeconfig is of workspace root"
    )
    up.add_argument("--audit-log", action="store_true", help="write an audit log next to the kubeconfig")
    up.add_argument(
        "--port", type=int, default=0, help="the port of the API server on 127.0.0.1 (default: a free port)"
    )
    for component in ("etcd", "apiserver", "controller-manager", "kcp"):
        up.add_argument(
            f"--{component}-arg",
            action="append",
            default=[],
            metavar="ARG",
            help=f"an additional flag for {component}, without its dashes, as in --{component}-arg v=4; can be"
            " repeated",
        )
    up.set_defaults(func=_reported(_up))

    down = commands.add_parser("down", help="stop a sandbox and remove its files")
    which = down.add_mutually_exclusive_group()
    _add_name(which)
    which.add_argument("--all", action="store_true", help="all sandboxes that `up` started")
    down.set_defaults(func=_reported(_down))

    status = commands.add_parser("status", help="list the sandboxes that `up` started")
    status.set_defaults(func=_reported(_status))

    execute = commands.add_parser("exec", help="run a command with KUBECONFIG set, and return its exit code")
    _add_name(execute)
    execute.add_argument("argv", nargs="+", metavar="CMD", help="the command, after `--`")
    execute.set_defaults(func=_reported(_exec))


def _add_name(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument("--name", default="default", help="the name of the sandbox (default: %(default)s)")


def _reported(command: _Command) -> _Command:
    @functools.wraps(command)
    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments)
        except BrokenPipeError:
            raise
        except (SandboxError, OSError) as error:
            print(f"syncline sandbox: {error}", file=sys.stderr)
            return 1

    return run


def _install(arguments: argparse.Namespace) -> int:
    found = find_kcp() if arguments.kcp else find_binaries()
    print(*filter(None, (found.etcd, found.apiserver, found.controller_manager, found.kcp)), sep="\n")
    return 0


def _tools(_: argparse.Namespace) -> int:
    print(*link_tools(Path(sys.executable).parent), sep="\n")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    options = Options(
        kcp=arguments.kcp,
        audit_log=arguments.audit_log,
        port=arguments.port,
        etcd_args=_flags(arguments.etcd_arg),
        apiserver_args=_flags(arguments.apiserver_arg),
        controller_manager_args=_flags(arguments.controller_manager_arg),
        kcp_args=_flags(arguments.kcp_arg),
    )
    sandbox = Sandbox.up(arguments.name, options)
    print(f"sandbox {arguments.name} is up: {sandbox.server}")
    if sandbox.audit_log is not None:
        print(f"audit log: {sandbox.audit_log}")
    print(sandbox.kubeconfig)
    return 0


def _flags(arguments: list[str]) -> tuple[str, ...]:
    # argparse accepts a value with a leading dash only as in --etcd-arg=--v=4. Without dashes it is easier to type.
    return tuple(argument if argument.startswith("-") else f"--{argument}" for argument in arguments)


def _down(arguments: argparse.Namespace) -> int:
    names = [status.name for status in statuses()] if arguments.all else [arguments.name]
    for name in names:
        print(f"sandbox {name} is {'down' if Sandbox.down(name) else 'not up'}")
    return 0


def _status(_: argparse.Namespace) -> int:
    found = statuses()
    if not found:
        print("no sandbox is up")
        return 0
    rows = [("NAME", "PHASE", "SERVER", "KUBECONFIG")]
    rows += [(each.name, each.phase, each.server or "-", str(each.folder / "kubeconfig")) for each in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for each in found:
        if each.failure:
            print(f"{each.name} has failed: {each.failure}")
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    sandbox = Sandbox.attach(arguments.name)
    try:
        child = subprocess.Popen(arguments.argv, env={**os.environ, "KUBECONFIG": str(sandbox.kubeconfig)})
    except OSError as error:
        raise SandboxError(f"cannot run {arguments.argv[0]}: {error.strerror}") from error
    with child:
        while True:
            # The command also receives an interrupt from the keyboard, and handles it itself.
            with contextlib.suppress(KeyboardInterrupt):
                code = child.wait()
                return code if code >= 0 else 128 - code
