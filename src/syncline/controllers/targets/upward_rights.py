"""Upward rights: the rights of syncs to write upstream, by reviews of the API servers there.

A sync claims to be the writer of upstream objects only where its credential may write them. Otherwise a credential that
may only read would keep other syncs from writing.
"""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from syncline.engine.access import AccessRequest, AccessReviews
from syncline.engine.cluster import Cluster
from syncline.kube.client import Client
from syncline.kube.errors import KubeError

# Rights change silently. An answer is used for as many seconds.
RIGHTS_TTL = 300.0

T = TypeVar("T")
_Identity = tuple[str, str | None]
"""An upstream, and the user that a sync acts as there."""


class UpwardRight(Struct, frozen=True, kw_only=True):
    """A right that a sync needs upstream."""

    upstream: Cluster
    client: Client
    access: AccessRequest


class UpwardRights:
    """The answers of the upstreams, for all syncs."""

    def __init__(self) -> None:
        self._reviews: dict[str, dict[_Identity, AccessReviews]] = {}
        self._unsure: set[str] = set()

    async def granted(self, sync: str, rights: Mapping[T, UpwardRight]) -> set[T]:
        """Return the rights that a sync has.

        It has none that the upstream does not answer for: nobody can claim objects by making an upstream slow.
        """
        known = self._reviews.get(sync, {})
        reviews: dict[_Identity, AccessReviews] = {}
        for right in rights.values():
            who = (right.upstream.name, right.client.user)
            reviews[who] = known.get(who) or reviews.get(who) or AccessReviews(right.client, ttl=RIGHTS_TTL)
        self._reviews[sync] = reviews
        self._unsure.discard(sync)

        async def has(right: UpwardRight) -> bool:
            try:
                return await reviews[right.upstream.name, right.client.user].may(None, right.access, by=sync)
            except KubeError:
                self._unsure.add(sync)
                return False

        answers = await asyncio.gather(*map(has, rights.values()))
        return {name for name, allowed in zip(rights, answers, strict=True) if allowed}

    def is_unsure(self, sync: str) -> bool:
        """Whether an upstream did not answer for a right when the rights of a sync were last asked for."""
        return sync in self._unsure

    def forget(self, sync: str) -> None:
        """Forget the answers for a sync."""
        self._reviews.pop(sync, None)
        self._unsure.discard(sync)
