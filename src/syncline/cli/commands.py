"""All commands, with all that they import."""

import sys
from collections.abc import Sequence

import syncline.cli.agent as agent_command
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
from syncline import cli
from syncline.cli.arguments import UsageError
from syncline.kube.errors import KubeError

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
    agent_command,
    sandbox_command,
)


def run(arguments: Sequence[str]) -> int:
    """Run a command."""
    try:
        return cli.run_command(arguments, _COMMANDS)
    except (KubeError, UsageError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        return 1
