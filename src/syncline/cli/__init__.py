"""The `syncline` command. Each subcommand is a module here; nothing imports this package."""

import argparse
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from syncline.cli._start import loading  # isort: skip - first, see there
from syncline import __version__

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. A user error is one line on stderr, never a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["agent"]:
            # It runs in every gateway pod, where the memory of all other commands would be wasted.
            with loading():
                import syncline.cli.agent as agent_command  # noqa: PLC0415
            return run_command(given, (agent_command,))
        if given[:1] == ["sandbox"]:
            # It needs a quarter of the time of all others to load.
            with loading():
                import syncline.cli.sandbox as sandbox_command  # noqa: PLC0415
            return run_command(given, (sandbox_command,))
        with loading():
            from syncline.cli.commands import run  # noqa: PLC0415 - as above
        return run(given)
    except BrokenPipeError:
        # The reader of the output has closed the pipe, as in `syncline crds | head`.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def run_command(arguments: Sequence[str], modules: Sequence[ModuleType]) -> int:
    """Run one of the commands of some modules."""
    parser = argparse.ArgumentParser(
        prog="syncline", description="Apply and copy configuration, and keep it in sync.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"syncline {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in modules:
        module.register(commands)
    given = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = given.func
    return command(given)
