"""Sends reports to the depot: only the newest, soon after each change, and a heartbeat without changes."""

import asyncio
import random

import structlog

from syncline.agent.depot_client import DepotClient, DepotError
from syncline.core.gateway_plan import GatewayReport

log = structlog.get_logger(__name__)

ALIVE_SECONDS = 600.0
"""The maximum time between two reports."""
SETTLE_SECONDS = 1.0
"""The delay before a sync in progress is reported: most end before."""
FIRST_RETRY, LAST_RETRY = 5.0, 60.0


class Reporter:
    """The newest report, and whether the depot has it."""

    def __init__(self, depot: DepotClient) -> None:
        self._depot = depot
        self._newest: GatewayReport | None = None
        self._sent: GatewayReport | None = None
        self._changed = asyncio.Event()

    def set(self, report: GatewayReport) -> None:
        """Queue a report, in place of unsent ones."""
        if report != self._newest:
            self._newest = report
            self._changed.set()

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS * random.uniform(0.8, 0.95)):  # noqa: S311 - spreads load
                    await self._changed.wait()
                if self._newest is not None and self._newest.state == "Syncing":
                    await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                self._sent = None
            await self._send_until_done()

    async def flush(self) -> None:
        """Send the newest report once, if the depot does not have it. Raises `DepotError`."""
        report = self._newest
        if report is not None and report != self._sent:
            await self._depot.report(report)
            self._sent = report

    async def _send_until_done(self) -> None:
        delay = FIRST_RETRY
        while True:
            self._changed.clear()
            try:
                await self.flush()
            except DepotError as error:
                log.info("the report could not be sent; the agent retries", error=str(error))
                await asyncio.sleep(max(error.retry_after, delay * random.uniform(0.8, 1.2)))  # noqa: S311
                delay = min(delay * 2, LAST_RETRY)
                continue
            if not self._changed.is_set():
                return
