"""The agent: it follows the plans of its gateway, carries them out, repairs drift, sends edits back, and reports.

Four tasks share the work: one waits for plans, one carries out the newest, one sends local edits, one sends reports.
"""

import asyncio
import contextlib
import random

import msgspec
import structlog

from syncline import __version__
from syncline.agent.access import AccessError, AgentAccess
from syncline.agent.adapters import Adapter, NoAdapter
from syncline.agent.adapters.http import HttpAdapter
from syncline.agent.adapters.ignition import IgnitionAdapter, expected_projects
from syncline.agent.adapters.signals import SignalAdapter
from syncline.agent.depot_client import DepotClient, DepotError
from syncline.agent.edits import EditSender
from syncline.agent.gateway_sync import GatewaySync, SyncOutcome
from syncline.agent.health import HealthEndpoint
from syncline.agent.local_http import LocalHttp
from syncline.agent.reporter import Reporter
from syncline.agent.settings import AgentSettings
from syncline.agent.state import load_ca, store_ca
from syncline.core.gateway_plan import GatewayPlan, GatewayReport, GatewayState
from syncline.files.errors import FilesError

log = structlog.get_logger(__name__)

FIRST_RETRY, LAST_RETRY = 5.0, 60.0
RARE_RETRY = 600.0
PROBE_SECONDS = 5.0
"""The interval of checks for the condition that the agent waits for."""
LAST_PROBE = 15.0
DRIFT_SECONDS = 10.0
"""The minimum time between two checks for drift. With many files it is longer, to limit their cost."""
DRIFT_FILES_PER_SECOND = 100
LONGEST_DRIFT = 600.0
_MAX_MESSAGE = 1000
_MAX_DRIFTED = 20
_MAX_PROJECTS = 100
_MAX_TEXT = 1024


class Agent:
    """One agent, from its start to its end."""

    def __init__(self, settings: AgentSettings, access: AgentAccess) -> None:
        self._settings = settings
        self._access = access
        self._depot = DepotClient(access)
        self._reporter = Reporter(self._depot)
        self._sync = GatewaySync(settings.data, self._depot, self._adapter)
        self._sync.began = self._report_syncing
        self._edits = EditSender(self._sync, self._depot)
        self._edits.reported = self._report_edits
        self._edits.on_settled = self._replace_edits
        self._sync.settled = self._edits.settled
        self._http: LocalHttp | None = None
        self._plan: GatewayPlan | None = None
        self._news = asyncio.Event()
        self._outcome = SyncOutcome(state="Pending", reason="DepotUnavailable", message="the agent has just started")
        self._started = False
        self._depot_problem = ""
        self._repairs = 0
        self._given_ca = ""

    async def run(self) -> None:
        """Work until cancelled. Raises `BindError` if the health endpoint cannot listen."""
        health = await HealthEndpoint.start(
            self._settings.health_bind, alive=self._is_alive, started=self._is_started, ready=self._is_ready
        )
        log.info("the agent has started", health=health.address if health else "off", folder=self._settings.data)
        try:
            await self._prepare()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_plans())
                tasks.create_task(self._work())
                tasks.create_task(self._edits.run())
                tasks.create_task(self._reporter.run())
        finally:
            log.info("the agent stops")
            await self._close()
            if health is not None:
                await health.close()

    async def run_once(self) -> SyncOutcome:
        """Carry out the newest plan once, and report. Raises `DepotError` if there is none."""
        try:
            await self._prepare()
            plan = await self._depot.plan("", wait=0)
            if plan is None:
                raise DepotError("DepotUnavailable", "the depot has no plan")
            await self._take(plan)
            self._settle(await self._sync.carry_out(plan))
            await self._reporter.flush()
            return self._outcome
        finally:
            await self._close()

    async def _close(self) -> None:
        await self._sync.close()
        if self._http is not None:
            await self._http.close()
        await self._depot.close()

    async def _prepare(self) -> None:
        """Open the folder, and trust the certificates that an earlier process has stored."""
        try:
            folder = await self._sync.open()
            self._given_ca = await self._access.ca()
            self._depot.trust(await self._sync.run(load_ca, folder.folder, self._given_ca))
        except AccessError as error:
            log.warning("the depot is not known yet", error=str(error))
        except FilesError as error:
            self._settle(SyncOutcome(state="Error", reason=error.reason, message=str(error), retry="soon"))

    async def _follow_plans(self) -> None:
        delay = FIRST_RETRY
        while True:
            try:
                plan = await self._depot.plan(self._plan.id if self._plan is not None else "")
                if plan is not None:
                    await self._take(plan)
                delay = FIRST_RETRY
                self._depot_problem = ""
            except DepotError as error:
                self._lose_depot(error)
                await self._read_given_ca()
                await asyncio.sleep(max(error.retry_after, delay * random.uniform(0.8, 1.2)))  # noqa: S311 - spreads load
                delay = min(delay * 2, LAST_RETRY)

    def _lose_depot(self, error: DepotError) -> None:
        if str(error) != self._depot_problem:
            log.warning("there is no plan; the agent retries", reason=error.reason, error=str(error))
        self._depot_problem = str(error)
        if self._plan is not None:
            return
        if self._sync.has_good_copy:
            self._start("the folder has the files of an earlier plan")
        elif self._outcome.state != "Error":
            state: GatewayState = "Error" if error.reason == "DepotRefused" else "Pending"
            message = f"the folder has no files yet, and {error}"
            self._settle(SyncOutcome(state=state, reason=error.reason, message=message))

    async def _take(self, plan: GatewayPlan) -> None:
        """Store a plan as the newest."""
        log.info("a new plan", plan=plan.id[:12], action=plan.action, commit=plan.commit, files=len(plan.files))
        self._plan = plan
        self._news.set()
        if plan.ca and plan.ca != self._depot.learned:
            await self._learn(plan.ca)

    async def _learn(self, ca: str) -> None:
        """Trust the certificates of a plan from a trusted connection, also after a restart."""
        self._depot.trust(ca)
        if self._settings.outside or self._sync.folder is None:
            return
        try:
            await self._sync.run(store_ca, self._sync.folder.folder, self._given_ca, ca)
        except FilesError as error:
            log.warning("the certificates of the depot could not be stored", error=str(error))

    async def _read_given_ca(self) -> None:
        """Trust changed certificates of the pod, in place of the stored ones."""
        with contextlib.suppress(AccessError):
            given = await self._access.ca()
            if given != self._given_ca:
                self._given_ca = given
                self._depot.trust("")

    async def _work(self) -> None:
        """Carry out the newest plan, and repeat it after a change or a failure."""
        attempts = 0
        while True:
            wait = self._next_wait(attempts)
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
                self._news.clear()
                attempts = self._repairs = 0
            except TimeoutError:
                if not await self._is_due():
                    attempts += 1
                    continue
            if self._plan is None:
                continue
            plan, settlements = self._plan, self._edits.settlements
            outcome = await self._sync.carry_out(plan)
            attempts = attempts + 1 if outcome.retry != "never" else 0
            self._settle(outcome)
            if settlements != self._edits.settlements:
                self._replace_edits()

    def _next_wait(self, attempts: int) -> float | None:
        """Return the seconds until the next check."""
        if self._plan is None:
            return FIRST_RETRY if self._sync.folder is None else None
        backoff: float = FIRST_RETRY * 2 ** min(max(attempts - 1, 0), 10)
        match self._outcome.retry:
            case "probe":
                return min(PROBE_SECONDS + attempts, LAST_PROBE)
            case "soon":
                return min(backoff, LAST_RETRY)
            case "rarely":
                return min(backoff, RARE_RETRY)
        if self._plan.action != "Publish" or self._sync.folder is None:
            return None
        files = len(self._sync.folder.manifest.files)
        # A file that is changed again and again is not repaired at once each time.
        usual: float = max(DRIFT_SECONDS, files / DRIFT_FILES_PER_SECOND) * 2 ** min(self._repairs, 10)
        return min(usual, LONGEST_DRIFT)

    async def _is_due(self) -> bool:
        """Whether an attempt is due now, although there is no new plan."""
        if self._sync.folder is None:
            await self._prepare()
            return self._sync.folder is not None
        if self._outcome.retry == "probe":
            return await self._sync.probe()
        if self._outcome.retry != "never":
            return True
        try:
            drifted = await self._sync.drifted()
        except FilesError as error:
            self._settle(SyncOutcome(state="Error", reason=error.reason, message=str(error), retry="soon"))
            return False
        if drifted == self._outcome.drifted and self._outcome.left.issuperset(drifted):
            return False
        self._repairs += 1
        return True

    def _settle(self, outcome: SyncOutcome) -> None:
        """Record the outcome of an attempt, and report it."""
        reported = (outcome.state, outcome.reason, outcome.message)
        if reported != (self._outcome.state, self._outcome.reason, self._outcome.message):
            warn = outcome.state == "Error"
            (log.warning if warn else log.info)("state", state=reported[0], reason=reported[1], message=reported[2])
        self._outcome = outcome
        paused = outcome.reason in ("Paused", "DryRun")
        if self._plan is not None and (paused or self._sync.has_good_copy):
            self._start("paused" if paused else "the folder has its files")
        if self._plan is not None:
            self._edits.follow(self._plan, outcome.conflicts)
        self._reporter.set(self._report())

    def _report_edits(self) -> None:
        self._reporter.set(self._report())

    def _replace_edits(self) -> None:
        """Carry out the plan again if the files of Git can replace edits now."""
        if self._outcome.waiting:
            self._news.set()

    def _start(self, why: str) -> None:
        if not self._started:
            self._started = True
            log.info("the start-up probe succeeds", cause=why)

    def _report_syncing(self) -> None:
        self._reporter.set(msgspec.structs.replace(self._report(), state="Syncing", reason="Syncing", message=""))

    def _report(self) -> GatewayReport:
        outcome, state, plan = self._outcome, self._sync.state, self._plan
        folder = self._sync.folder
        manifest = folder.manifest if folder is not None else None
        hint = "; an earlier manifest was damaged, see .syncline" if manifest is not None and manifest.damaged else ""
        return GatewayReport(
            state=outcome.state,
            reason=outcome.reason,
            plan=plan.id if plan is not None else "",
            commit=manifest.commit if manifest is not None else "",
            ref=manifest.ref[:_MAX_TEXT] if manifest is not None else "",
            message=outcome.message[:_MAX_MESSAGE] + hint,
            files=len(manifest.files) if manifest is not None else 0,
            changed=outcome.changed if outcome.changed is not None else state.changed,
            projects=expected_projects(plan)[:_MAX_PROJECTS] if plan is not None else (),
            scan=state.scan[:256],
            seconds=state.seconds,
            synced_at=state.synced_at,
            agent_version=__version__,
            drifted=outcome.drifted[:_MAX_DRIFTED],
            deletion=outcome.deletion,
            snapshot=state.snapshot,
            snapshot_bytes=state.snapshot_bytes,
            snapshot_at=state.snapshot_at,
            history=state.history,
            edits=self._edits.report,
        )

    def _adapter(self, plan: GatewayPlan) -> Adapter:
        """Return the adapter of a plan."""
        ignition, http, signal = plan.apply.ignition, plan.apply.http, plan.apply.signal
        if ignition is not None:
            return IgnitionAdapter(
                self._local(ignition.port, tls=ignition.tls), self._settings.api_key_file, ignition.designer_sessions
            )
        if http is not None:
            return HttpAdapter(self._local(http.port, tls=http.tls), http, self._settings.secrets_dir)
        return NoAdapter() if signal is None else SignalAdapter(signal)

    def _local(self, port: int, *, tls: bool) -> LocalHttp:
        url = self._settings.gateway_url or f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        if self._http is None or self._http.url != url.rstrip("/"):
            old, self._http = self._http, LocalHttp(url)
            if old is not None:
                asyncio.get_running_loop().create_task(old.close())
        return self._http

    def _is_alive(self) -> tuple[bool, str]:
        return True, "ok"

    def _is_started(self) -> tuple[bool, str]:
        return self._started, "ok" if self._started else self._outcome.message or "the files are not published yet"

    def _is_ready(self) -> tuple[bool, str]:
        ready = self._outcome.state == "Synced"
        return ready, f"{self._outcome.reason}: {self._outcome.message}".rstrip(": ")
