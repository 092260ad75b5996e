"""The quotas of a TenantPolicy: they stop what comes on top, and take away nothing that exists."""

import random

from tests.configmapsync.world import Sync, until
from tests.configsync.conftest import world
from tests.configsync.world import GitWorld, config_map
from tests.manifestsync.world import Manifests
from tests.tenancy.policies import Govern

__all__ = ["world"]


def by_age(*syncs: Sync) -> list[Sync]:
    """Return syncs in the order in which they keep their places."""

    def age(sync: Sync) -> tuple[str, str]:
        meta = sync.read()["metadata"]
        return meta["creationTimestamp"], meta["uid"]

    return sorted(syncs, key=age)


class TestSyncs:
    def test_a_sync_too_many_waits_until_an_older_one_is_deleted(self, world: GitWorld, govern: Govern) -> None:
        policy = govern(quotas={"syncs": 1})
        world.source()
        target = world.namespace("a")
        syncs = [world.sync(name, destinationNamespace=target, destinationName=name) for name in ("one", "two")]
        older, newer = by_age(*syncs)
        ready = newer.becomes("NotAllowed")
        assert ready["message"] == (
            policy.refusal("quotas.syncs", f"to have more than 1 syncs in namespace {world.home}")
            + "delete a sync that is older than this one, or ask its administrator"
        )
        older.becomes("Synced")
        older.delete()
        older.gone()
        newer.becomes("Synced")

    def test_a_quota_that_comes_later_leaves_the_oldest_in_place_and_removes_nothing(
        self, world: GitWorld, govern: Govern
    ) -> None:
        source = world.source()
        target = world.namespace("a")
        syncs = [world.sync(name, destinationNamespace=target, destinationName=name) for name in ("x", "y", "z")]
        for sync in syncs:
            sync.becomes("Synced")
        oldest, *newer = by_age(*syncs)
        policy = govern(quotas={"syncs": 1})
        for sync in newer:
            sync.becomes("NotAllowed")
        source.set(colour="blue")
        world.config_map(target, oldest.name).becomes(colour="blue")
        for sync in newer:
            sync.now()
            assert world.config_map(target, sync.name).data == {"colour": "red"}
        policy.change(quotas={"syncs": 3})
        for sync in newer:
            world.config_map(target, sync.name).becomes(colour="blue")

    def test_no_namespace_uses_up_what_another_one_of_the_same_policy_has(
        self, world: GitWorld, govern: Govern
    ) -> None:
        other = Manifests(world.sandbox)
        for one in (world, other):
            one.source()
            one.namespace_object(one.home).label(tenant=world.name)
        govern(labels={"tenant": world.name}, quotas={"syncs": 1, "targets": 1})
        target = world.namespace("a")
        names = ("one", "two", "three")
        crowd = [world.sync(name, destinationNamespace=target, destinationName=name) for name in names]
        for sync in by_age(*crowd)[1:]:
            sync.becomes("NotAllowed")
        other.sync(destinationNamespace=other.namespace("a")).becomes("Synced")
        other.end()


class TestTargets:
    def test_a_sync_that_would_go_over_is_refused_whole_and_gets_its_turn_when_there_is_room(
        self, world: GitWorld, govern: Govern
    ) -> None:
        policy = govern(quotas={"targets": 3})
        world.source()
        one, two = world.namespaces("one", "two")
        first = world.sync("first", destinationNamespaces=[one, two])
        first.becomes("Synced", synced=2)
        second = world.sync("second", destinationNamespaces=[one, two], destinationName="second")
        ready = second.becomes("NotAllowed")
        what = f"to have 2 targets here and more than 3 in all of namespace {world.home}"
        assert ready["message"] == (
            policy.refusal("quotas.targets", what) + "have fewer here: its other syncs have 2, or ask its administrator"
        )
        assert world.config_map(one, "second").look() is None
        first.change(destinationNamespaces=[one])
        second.becomes("Synced", synced=2)

    def test_a_sync_that_grows_too_large_keeps_what_it_has(self, world: GitWorld, govern: Govern) -> None:
        govern(quotas={"targets": 1})
        source = world.source()
        one, two = world.namespaces("one", "two")
        sync = world.sync(destinationNamespaces=[one])
        sync.becomes("Synced", synced=1)
        sync.change(destinationNamespaces=[one, two])
        sync.becomes("NotAllowed")
        assert world.config_map(one).data == {"colour": "red"}
        assert world.config_map(two).look() is None
        sync.change(destinationNamespaces=[one])
        source.set(colour="blue")
        world.config_map(one).becomes(colour="blue")

    def test_what_git_brings_is_counted_before_it_is_written(self, world: GitWorld, govern: Govern) -> None:
        policy = govern(quotas={"targets": 1})
        first = world.push({"a.yaml": config_map("a")})
        sync = world.csync()
        sync.at(first)
        second = world.push({"b.yaml": config_map("b")})
        sync.now()
        ready = sync.becomes("NotAllowed")
        what = f"to have 2 targets here and more than 1 in all of namespace {world.home}"
        assert ready["message"].startswith(policy.refusal("quotas.targets", what))
        assert world.config_map(world.home, "b").look() is None
        assert world.config_map(world.home, "a").data == {"a": "1"}
        policy.change(quotas={"targets": 2})
        sync.at(second)


def laborious(number: str) -> str:
    """Return what takes a moment to build, and comes to a ConfigMap."""
    data = f"{{number: '{number}', [if std.foldl(function(a, b) a + b, std.range(1, 50000), 0) < 0 then 'sum']: ''}}"
    return f"{{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: 'a'}}, data: {data}}}"


class TestBuilds:
    def test_a_namespace_that_has_built_for_long_enough_waits_and_what_it_has_stays_in_force(
        self, world: GitWorld, govern: Govern
    ) -> None:
        policy = govern(quotas={"buildSecondsPerHour": 1})
        applied = world.config_map(world.home, "a")
        world.push({"app/main.jsonnet": laborious("0")})
        sync = world.csync(git={"path": "app"}, build={"jsonnet": {}})
        applied.becomes(number="0")
        pushed = iter(range(1, 10_000))

        def push() -> str:
            world.push({"app/main.jsonnet": laborious(str(next(pushed)))})
            sync.now()
            return sync.message

        message = until(push, lambda said: "quotas.buildSecondsPerHour" in said)
        assert message.startswith(
            policy.refusal(
                "quotas.buildSecondsPerHour", f"to build for more than 1 s an hour in namespace {world.home}"
            )
            + "wait for the next try at "
        )
        before = applied.data
        applied.set(number="edited by hand")
        applied.becomes(**before)
        last = world.push({"app/main.jsonnet": laborious("last")})
        policy.change(quotas={"buildSecondsPerHour": 3600})
        sync.now()
        sync.at(last)
        assert applied.data == {"number": "last"}

    def test_where_no_builds_are_allowed_nothing_is_built(self, world: GitWorld, govern: Govern) -> None:
        govern(quotas={"buildSecondsPerHour": 0})
        world.push({"a.yaml": config_map("a")})
        ready = world.csync().becomes("NotAllowed")
        assert "use a kind of sync that builds nothing" in ready["message"]
        world.source()
        world.sync(destinationNamespace=world.namespace("a")).becomes("Synced")


class TestMirrors:
    def test_a_repository_that_would_take_too_much_of_the_disk_is_not_kept(
        self, world: GitWorld, govern: Govern
    ) -> None:
        policy = govern(quotas={"mirrorBytes": 1_000_000})
        noise = random.Random(1).randbytes(1_500_000).hex()
        commit = world.push({"a.yaml": config_map("a"), "docs/noise.txt": noise})
        sync = world.csync(git={"path": "a.yaml"})
        ready = sync.becomes("NotAllowed")
        assert ready["message"] == (
            policy.refusal(
                "quotas.mirrorBytes", f"to keep more than 1000000 bytes of repositories for namespace {world.home}"
            )
            + "use repositories that are smaller, or fewer, or ask its administrator"
        )
        policy.change(quotas={"mirrorBytes": 100_000_000})
        sync.at(commit)
