"""The memory of a process about pairs: the shapes of their kinds, and the observed order of changes of their sides.

All of it may be lost: shapes are read again, and without an order the upstream counts as the later side.
"""

import asyncio
import zlib

from msgspec import Struct

from syncline.core.fields import BUILT_IN_GROUPS
from syncline.core.group_kind import GroupKind
from syncline.core.object_shapes import Shape, shape_from_schema, shape_of_kind
from syncline.core.openapi_schemas import OpenApiSchemas
from syncline.core.twoway import Side
from syncline.engine.cluster import Cluster
from syncline.engine.sent_values import SentValues
from syncline.kube.errors import NotFound

MAX_SHAPE_PARTS = 300_000
"""The maximum number of parts in all cached shapes. A large kind has 20,000; a server of a tenant can publish more."""
MAX_PAIRS = 50_000
_UPSTREAM: tuple[Side, ...] = ("Upstream",)
_DOWNSTREAM: tuple[Side, ...] = ("Downstream",)


class _KnownPair(Struct, gc=False):
    upstream: str
    downstream: str
    order: tuple[Side, ...] = ()


class _KnownShape(Struct, frozen=True):
    shape: Shape
    parts: int


class PairMemory:
    """Shared by all pairs of a process."""

    def __init__(self) -> None:
        self.sent = SentValues()
        self._shapes: dict[tuple[bytes, str, str], _KnownShape] = {}
        self._pairs: dict[str, _KnownPair] = {}

    async def shape_of(self, cluster: Cluster, kind: str, api_version: str) -> Shape:
        """Return the shape of a kind: known for Kubernetes' own kinds, from the schema of the server for others.

        Raises the errors of any read. Without a schema, each list is one value.
        """
        group, name = GroupKind.parse(kind)
        if group in BUILT_IN_GROUPS:
            return shape_of_kind(kind)
        try:
            document = (await cluster.openapi.documents([api_version])).get(api_version)
        except NotFound:
            document = None
        if document is None:
            return shape_of_kind(kind)
        key = (document.digest, api_version, name)
        known = self._shapes.pop(key, None)
        if known is None:
            known = await asyncio.to_thread(_read_shape, document.packed, api_version, name)
        self._shapes[key] = known
        while len(self._shapes) > 1 and sum(one.parts for one in self._shapes.values()) > MAX_SHAPE_PARTS:
            del self._shapes[next(iter(self._shapes))]
        return known.shape

    def order(self, pair: str, upstream: str, downstream: str) -> tuple[Side, ...]:
        """Record the digests of the two sides; return the side that was observed to change last."""
        known = self._pairs.pop(pair, None)
        order = known.order if known is not None else ()
        if known is not None:
            changed = (known.upstream != upstream, known.downstream != downstream)
            order = {(True, False): _UPSTREAM, (False, True): _DOWNSTREAM, (True, True): ()}.get(changed, order)
        self._remember(pair, _KnownPair(upstream, downstream, order))
        return order

    def settle(self, pair: str, upstream: str, downstream: str) -> None:
        """Record the digests of two sides that agree."""
        self._pairs.pop(pair, None)
        self._remember(pair, _KnownPair(upstream, downstream))

    def _remember(self, pair: str, known: _KnownPair) -> None:
        self._pairs[pair] = known
        if len(self._pairs) > MAX_PAIRS:
            del self._pairs[next(iter(self._pairs))]


def _read_shape(packed: bytes, api_version: str, kind: str) -> _KnownShape:
    schemas = OpenApiSchemas(zlib.decompress(packed))
    name = schemas.name_of(api_version, kind)
    if name is None:
        return _KnownShape(shape_of_kind(str(GroupKind.of(api_version, kind))), 1)
    shape = shape_from_schema(schemas.definition(name), schemas.definition)
    return _KnownShape(shape, _count_parts(shape))


def _count_parts(shape: Shape) -> int:
    """Count the parts of a shape, each once: a schema can refer to itself."""
    known = {id(shape)}
    left = [shape]
    while left:
        one = left.pop()
        for part in (*one.fields.values(), one.others, one.items):
            if part is not None and id(part) not in known:
                known.add(id(part))
                left.append(part)
    return len(known)
