"""The `syncline` command. Each subcommand is a module here; nothing imports this package."""

import argparse
import sys
from collections.abc import Callable, Sequence

import syncline.cli._start  # noqa: F401 - first, see there
import syncline.cli.diff as diff_command
import syncline.cli.doctor as doctor_command
import syncline.cli.get as get_command
import syncline.cli.grant as grant_command
import syncline.cli.install as install_command
import syncline.cli.keys as keys_command
import syncline.cli.plan as plan_command
import syncline.cli.reconcile as reconcile_command
import syncline.cli.rollback as rollback_command
import syncline.cli.run as run_command
import syncline.cli.sandbox as sandbox_command
from syncline import __version__
from syncline.cli.arguments import UsageError
from syncline.kube.errors import KubeError

__all__ = ["main"]

_COMMANDS = (
    run_command,
    get_command,
    plan_command,
    diff_command,
    reconcile_command,
    rollback_command,
    install_command,
    keys_command,
    grant_command,
    doctor_command,
    sandbox_command,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. A user error is one line on stderr, never a traceback."""
    parser = argparse.ArgumentParser(
        prog="syncline", description="Apply and copy configuration, and keep it in sync.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"syncline {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.register(commands)
    given = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = given.func
    try:
        return command(given)
    except (KubeError, UsageError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of the output has closed the pipe, as in `syncline crds | head`.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130
