"""All clusters in use: one member for each credential, shared by all its users, closed after the last use."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator
from typing import Self

import structlog
from structlog.typing import FilteringBoundLogger

from syncline.fleet.addresses import OwnThreads, address_check
from syncline.fleet.circuit_breaker import Timeouts
from syncline.fleet.credentials import Credentials
from syncline.fleet.gated_transport import MAX_ANSWER
from syncline.fleet.remote_cluster import IdentityProbe, RemoteCluster
from syncline.fleet.resolve import MemberKey
from syncline.kube.cache_budget import CacheBudget
from syncline.kube.errors import KubeError
from syncline.kube.transport import Dialing

Reread = Callable[[], Awaitable[Credentials]]
"""Reads the Secret again and returns the current credential."""

_REREAD_TIMEOUT = 10.0

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Fleet:
    """The members by key. Equal credentials of one namespace share a member.

    Credentials of different namespaces are never shared, even if they are equal: each has its own rotation, and no
    message of one namespace is shown in the other.
    """

    def __init__(self, *, allow_loopback: bool = False, timeouts: Timeouts | None = None) -> None:
        self.allow_loopback = allow_loopback
        self._timeouts = timeouts or Timeouts()
        self._dialing = Dialing(
            connect_timeout=self._timeouts.connect,
            max_answer=MAX_ANSWER,
            check_address=address_check(allow_loopback=allow_loopback),
            resolver=OwnThreads(),
        )
        self._caches = CacheBudget()
        self._bound: dict[MemberKey, RemoteCluster] = {}
        self._rereads: dict[MemberKey, Reread] = {}
        self._uses: dict[Hashable, frozenset[MemberKey]] = {}
        self._users: Counter[MemberKey] = Counter()
        self._idle: dict[RemoteCluster, asyncio.TimerHandle] = {}
        self._listeners: list[Callable[[RemoteCluster], None]] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __iter__(self) -> Iterator[RemoteCluster]:
        return iter(tuple(dict.fromkeys(self._bound.values())))

    def listen(self, on_change: Callable[[RemoteCluster], None]) -> None:
        """Register a callback for changes of a member: up, down, another cause, or a key that has another member now.

        The callback must be fast.
        """
        self._listeners.append(on_change)

    def find(self, key: MemberKey) -> RemoteCluster | None:
        """Return the member of a key, if there is one."""
        return self._bound.get(key)

    def get_or_create(
        self,
        key: MemberKey,
        credentials: Credentials,
        *,
        user: Hashable | None = None,
        reread: Reread | None = None,
        probe: IdentityProbe | None = None,
    ) -> RemoteCluster:
        """Return the member of a key, with these credentials from now on.

        This call sends no request to the cluster. If the content has changed, the member continues with the new
        credential and the same client. `reread` is called when the cluster refuses the credential. `user` uses the
        member until `keep` changes this. `probe` is for a server that is not identified as a cluster. Raises
        `NotResolved` if the certificates are not valid. Then an existing member continues unchanged.
        """
        held = self._bound.get(key)
        member = self._with_content(key.namespace, credentials, probe)
        if member is None and held is not None and self._keys(held) == {key}:
            held.rotate(credentials)
            member = held
        if member is None:
            member = self._make(key, credentials, probe)
        self._bound[key] = member
        if reread is not None:
            self._rereads[key] = reread
        if user is not None:
            self.retain(user, self._uses.get(user, frozenset()) | {key})
        self._watch_idle(member)
        if held is not None and held is not member:
            self._watch_idle(held)
            self._notify(held)  # users that name the key may not read its Secret, and would continue with this member
        return member

    def retain(self, user: Hashable, keys: Collection[MemberKey]) -> None:
        """Set the members that a user needs: exactly these. None means that the user no longer exists."""
        before, now = self._uses.pop(user, frozenset()), frozenset(keys)
        if now:
            self._uses[user] = now
        self._users.update(now - before)
        self._users.subtract(before - now)
        for key in before ^ now:
            if key in self._bound:
                self._watch_idle(self._bound[key])

    async def close(self) -> None:
        """Close all members."""
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        for member in self:
            self._end(member, "Closed", "the operator stops")
        while self._closing:
            await asyncio.wait(self._closing)

    def _with_content(
        self, namespace: str, credentials: Credentials, probe: IdentityProbe | None
    ) -> RemoteCluster | None:
        return next(
            (
                member
                for member in self
                if (member.namespace, member.probe) == (namespace, probe)
                and member.credentials.digest == credentials.digest
            ),
            None,
        )

    def _keys(self, member: RemoteCluster) -> set[MemberKey]:
        return {key for key, each in self._bound.items() if each is member}

    def _make(self, key: MemberKey, credentials: Credentials, probe: IdentityProbe | None) -> RemoteCluster:
        return RemoteCluster(
            key.namespace,
            key.name,
            credentials,
            timeouts=self._timeouts,
            dialing=self._dialing,
            reread=self._reread,
            on_change=self._notify,
            on_other_cluster=self._replace,
            probe=probe,
            caches=self._caches,
        )

    async def _reread(self, member: RemoteCluster) -> None:
        """Read all Secrets of a member again, and use a changed credential from now on."""
        found: dict[MemberKey, Credentials] = {}
        keys = self._keys(member)
        for key in sorted(keys & self._rereads.keys()):
            try:
                async with asyncio.timeout(_REREAD_TIMEOUT):
                    found[key] = await self._rereads[key]()
            except (KubeError, TimeoutError) as error:
                log.warning(
                    "the cluster refused the credential, and its Secret is unreadable",
                    cluster=member.name,
                    key=str(key),
                    error=str(error),
                )
        try:
            if found.keys() == keys and len({credentials.digest for credentials in found.values()}) == 1:
                member.rotate(next(iter(found.values())))
                return
            for key, credentials in found.items():
                if self._bound.get(key) is member:
                    self.get_or_create(key, credentials, probe=member.probe)
        except KubeError as error:
            log.warning(
                "the cluster refused the credential, and the new credential is not valid",
                cluster=member.name,
                error=str(error),
            )

    def _replace(self, member: RemoteCluster) -> None:
        """Create a new member, because the Secret now refers to another cluster and the caches are not valid for it."""
        keys = self._keys(member)
        if not keys:
            return
        fresh = self._make(min(keys), member.credentials, member.probe)
        self._bound.update(dict.fromkeys(keys, fresh))
        self._end(member, "Replaced", "its Secret now refers to another cluster")
        self._watch_idle(fresh)

    def _notify(self, member: RemoteCluster) -> None:
        for listener in self._listeners:
            try:
                listener(member)
            except Exception:  # an error in one callback must not stop the other callbacks or the probes
                log.exception("a callback for a change of a cluster failed", cluster=member.name)

    def _watch_idle(self, member: RemoteCluster) -> None:
        """Close a member some time after its last use, or immediately if no key refers to it."""
        timer = self._idle.pop(member, None)
        if timer is not None:
            timer.cancel()
        keys = self._keys(member)
        if not keys:
            self._end(member, "Closed", "its Secret has changed")
        elif not any(self._users[key] > 0 for key in keys):
            loop = asyncio.get_running_loop()
            self._idle[member] = loop.call_later(self._timeouts.idle, self._expire, member)

    def _expire(self, member: RemoteCluster) -> None:
        self._idle.pop(member, None)
        self._end(member, "Closed", "no sync uses it any more")

    def _end(self, member: RemoteCluster, reason: str, message: str) -> None:
        for key in self._keys(member):
            self._bound.pop(key)
            self._rereads.pop(key, None)
        for key in [key for key, count in self._users.items() if count <= 0]:
            del self._users[key]
        member.end(reason, message)
        for each in self:  # members with the same name share the removed series
            if (each.namespace, each.name) == (member.namespace, member.name):
                each.count()
        task = asyncio.get_running_loop().create_task(member.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
