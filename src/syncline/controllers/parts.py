"""The parts of a ConfigSync, such as its environments: each owns what it has written."""

from msgspec import structs

from syncline.api.configsync import ConfigSyncStatus
from syncline.controllers.configsynckind import spec_of
from syncline.controllers.laps import Lap
from syncline.controllers.removal import Wanted
from syncline.controllers.sites import Reached
from syncline.controllers.survey import Site
from syncline.controllers.tracks import former_parts
from syncline.controllers.work import Work


def part_of(reached: Reached, name: str, left: tuple[str, ...] = ()) -> Reached:
    """Return the clusters as one part of a sync writes to them; it takes over what the parts that left still have."""

    def named(site: Site) -> Site:
        heir_of = tuple(structs.replace(site.owner, part=part).ref for part in left)
        return structs.replace(site, owner=structs.replace(site.owner, part=name, heir_of=heir_of))

    if not name and not left:
        return reached
    return structs.replace(reached, sites=tuple(map(named, reached.sites)), former=tuple(map(named, reached.former)))


def departed_parts(work: Work) -> tuple[str, ...]:
    """Return the parts that left the spec and may still have something."""
    status = work.sync.status
    assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
    return former_parts(spec_of(work.sync), status)


def wanted_of(part: Reached, lap: Lap) -> Wanted:
    """Return all that a track wants; the rest of what the part has is unwanted."""
    targets = frozenset((site.cluster.uid, one.target) for site in part.sites for one in lap.desired())
    return Wanted(targets, frozenset(), frozenset(), certain=True)


def has_copies(part: Reached) -> bool:
    """Whether anything is there that names this part."""
    return any(site.cluster.copies_of(site.owner.ref) for site in (*part.sites, *part.former))
