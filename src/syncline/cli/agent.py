"""`syncline agent`: the sidecar of a gateway. It imports only what it needs: memory in gateway pods is scarce."""

import argparse
import asyncio
import os
import signal
import sys

from syncline.agent.access import AccessError, AgentAccess, PodAccess
from syncline.agent.agent import Agent
from syncline.agent.depot_client import DepotError
from syncline.agent.settings import ENV_LOG_FORMAT, AgentSettings, AgentSettingsError, settings_of
from syncline.telemetry.bind import BindError
from syncline.telemetry.logs import configure

_FLAGS = (
    ("--data", "FOLDER", "the data folder of the gateway, which the agent keeps equal to its plan"),
    ("--kubeconfig", "FILE", "outside of a pod: request the token of the pod and find the depot with this kubeconfig"),
    ("--namespace", "N", "with --kubeconfig: the namespace of the sync and of the pod"),
    ("--sync", "NAME", "with --kubeconfig: the name of the IgnitionSync"),
    ("--pod", "POD", "with --kubeconfig: the name of the pod"),
    ("--depot-url", "URL", "the address of the depot"),
    ("--ca-file", "FILE", "the CA certificates of the depot"),
    ("--token-file", "FILE", "the token of the pod, with the audience syncline"),
    ("--gateway-url", "URL", "the address of the gateway (default: this machine, at the port of the plan)"),
    ("--api-key-file", "FILE", "the API key of the gateway, NAME:SECRET; it is read for each request"),
    (
        "--secrets-dir",
        "FOLDER",
        "a folder with the values of headers, for applications that reload files after a request",
    ),
    ("--health-bind", "ADDR", "serve /startupz, /healthz and /readyz at this address, such as :8086 (default: 0, off)"),
)


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "agent",
        help="keep the folder of one gateway in sync (the sidecar)",
        description="Keep the folder of one gateway in sync. In a pod, the settings are in the environment.",
    )
    for flag, metavar, text in _FLAGS:
        parser.add_argument(flag, metavar=metavar, help=text)
    parser.add_argument("--once", action="store_true", help="carry out the newest plan once, and end")
    parser.add_argument("--log-format", choices=("json", "console"), help="default: console, or SYNCLINE_LOG_FORMAT")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.set_defaults(func=_run)


def _run(given: argparse.Namespace) -> int:
    chosen = given.log_format or os.environ.get(ENV_LOG_FORMAT, "")
    configure("json" if chosen == "json" else "console", given.log_level)
    try:
        settings = settings_of(vars(given), os.environ)
        return asyncio.run(_start(settings))
    except (AccessError, AgentSettingsError, BindError, DepotError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        return 1


async def _start(settings: AgentSettings) -> int:
    """Run the agent until it has ended, or until a signal ends it."""
    agent = Agent(settings, _access(settings))
    if settings.once:
        outcome = await agent.run_once()
        print(f"{outcome.state}: {outcome.reason}{': ' if outcome.message else ''}{outcome.message}")
        return 0 if outcome.state == "Synced" or outcome.reason == "GatewayStarting" else 1
    work = asyncio.ensure_future(agent.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        return 0
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return 0


def _access(settings: AgentSettings) -> AgentAccess:
    if not settings.outside:
        return PodAccess(settings)
    from syncline.agent.cluster_access import ClusterAccess  # noqa: PLC0415 - agents in pods do not need it

    return ClusterAccess(settings)
