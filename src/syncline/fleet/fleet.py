"""All clusters in use: one member a credential, shared by all who name it, closed when nobody does."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator
from typing import Self

import structlog
from structlog.typing import FilteringBoundLogger

from syncline.fleet.addresses import OwnThreads, address_check
from syncline.fleet.credentials import Credentials
from syncline.fleet.line import MAX_ANSWER
from syncline.fleet.member import Member
from syncline.fleet.pulse import Pace
from syncline.fleet.resolve import MemberKey
from syncline.kube.errors import KubeError
from syncline.kube.transport import Dialing

Reread = Callable[[], Awaitable[Credentials]]
"""Reads the Secret again and returns what it holds now."""

_REREAD_TIMEOUT = 10.0

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Fleet:
    """Members by what they are known by. Credentials that are equal, in one namespace, share a member.

    A namespace's credentials are never shared with another's, even where they are equal: each has its own rotation,
    and no message of one is told to the other.
    """

    def __init__(self, *, allow_loopback: bool = False, pace: Pace | None = None) -> None:
        self.allow_loopback = allow_loopback
        self._pace = pace or Pace()
        self._dialing = Dialing(
            connect_timeout=self._pace.connect,
            max_answer=MAX_ANSWER,
            check_address=address_check(allow_loopback=allow_loopback),
            resolver=OwnThreads(),
        )
        self._bound: dict[MemberKey, Member] = {}
        self._rereads: dict[MemberKey, Reread] = {}
        self._uses: dict[Hashable, frozenset[MemberKey]] = {}
        self._users: Counter[MemberKey] = Counter()
        self._idle: dict[Member, asyncio.TimerHandle] = {}
        self._listeners: list[Callable[[Member], None]] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(dict.fromkeys(self._bound.values())))

    def listen(self, on_change: Callable[[Member], None]) -> None:
        """Be told when a member comes up, goes down, or is down for another reason; what is called must be quick."""
        self._listeners.append(on_change)

    def find(self, key: MemberKey) -> Member | None:
        """Return the member that is known by a key, if there is one."""
        return self._bound.get(key)

    def member(
        self, key: MemberKey, credentials: Credentials, *, user: Hashable | None = None, reread: Reread | None = None
    ) -> Member:
        """Return the member for a key, which has these credentials from now on.

        Nothing is asked of the cluster in this call. Where the content has changed, the member goes on with the new
        one, client and all; `reread` is called when the cluster refuses what it has. `user` is whoever needs the
        member, until `keep` says otherwise. Raises `NotResolved` where the certificates are none; the member that was
        there goes on as it was.
        """
        held = self._bound.get(key)
        member = self._with_content(key.namespace, credentials)
        if member is None and held is not None and self._keys(held) == {key}:
            held.rotate(credentials)
            member = held
        if member is None:
            member = self._make(key, credentials)
        self._bound[key] = member
        if reread is not None:
            self._rereads[key] = reread
        if user is not None:
            self.keep(user, self._uses.get(user, frozenset()) | {key})
        self._watch_idle(member)
        if held is not None and held is not member:
            self._watch_idle(held)
        return member

    def keep(self, user: Hashable, keys: Collection[MemberKey]) -> None:
        """Say which members a user needs, from now on: these, and no others. None, where the user is gone."""
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
            self._end(member, "Closed", "the operator ends")
        while self._closing:
            await asyncio.wait(self._closing)

    def _with_content(self, namespace: str, credentials: Credentials) -> Member | None:
        return next(
            (
                member
                for member in self
                if member.namespace == namespace and member.credentials.digest == credentials.digest
            ),
            None,
        )

    def _keys(self, member: Member) -> set[MemberKey]:
        return {key for key, each in self._bound.items() if each is member}

    def _make(self, key: MemberKey, credentials: Credentials) -> Member:
        return Member(
            key.namespace,
            key.name,
            credentials,
            pace=self._pace,
            dialing=self._dialing,
            reread=self._reread,
            on_change=self._tell,
            on_other_cluster=self._replace,
        )

    async def _reread(self, member: Member) -> None:
        """Read all Secrets that a member came from; what changed is used from now on."""
        found: dict[MemberKey, Credentials] = {}
        keys = self._keys(member)
        for key in sorted(keys & self._rereads.keys()):
            try:
                async with asyncio.timeout(_REREAD_TIMEOUT):
                    found[key] = await self._rereads[key]()
            except (KubeError, TimeoutError) as error:
                log.warning(
                    "the credential was refused, and its Secret cannot be read",
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
                    self.member(key, credentials)
        except KubeError as error:
            log.warning(
                "the credential was refused, and the new one cannot be used", cluster=member.name, error=str(error)
            )

    def _replace(self, member: Member) -> None:
        """Make a new member: the Secret of this one leads to another cluster now, and views of it are of no use."""
        keys = self._keys(member)
        if not keys:
            return
        fresh = self._make(min(keys), member.credentials)
        self._bound.update(dict.fromkeys(keys, fresh))
        self._end(member, "Replaced", "its Secret leads to another cluster now")
        self._watch_idle(fresh)

    def _tell(self, member: Member) -> None:
        for listener in self._listeners:
            try:
                listener(member)
            except Exception:  # a mistake of one must not keep the others, or the probes, from going on
                log.exception("a change of a cluster could not be passed on", cluster=member.name)

    def _watch_idle(self, member: Member) -> None:
        """Close a member some time after its last user has gone, or at once when no key leads to it any more."""
        timer = self._idle.pop(member, None)
        if timer is not None:
            timer.cancel()
        keys = self._keys(member)
        if not keys:
            self._end(member, "Closed", "its Secret has changed")
        elif not any(self._users[key] > 0 for key in keys):
            loop = asyncio.get_running_loop()
            self._idle[member] = loop.call_later(self._pace.idle, self._expire, member)

    def _expire(self, member: Member) -> None:
        self._idle.pop(member, None)
        self._end(member, "Closed", "no sync uses it any more")

    def _end(self, member: Member, reason: str, message: str) -> None:
        for key in self._keys(member):
            self._bound.pop(key)
            self._rereads.pop(key, None)
        for key in [key for key, count in self._users.items() if count <= 0]:
            del self._users[key]
        member.end(reason, message)
        for each in self:  # of the same name: the series that just went was theirs too
            if (each.namespace, each.name) == (member.namespace, member.name):
                each.count()
        task = asyncio.get_running_loop().create_task(member.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
