"""What syncs read of ConfigMaps and Secrets is kept up to a number of bytes, fairly between namespaces."""

from syncline.controllers.sources.references import MAX_CACHED_BYTES, ReadingCache, ReferencedData
from syncline.core.objects import Target

MIB = 1024 * 1024


def test_large_objects_of_one_namespace_push_out_only_each_other() -> None:
    """Whoever may create ConfigMaps can name thousands of them in syncs, with a mebibyte each."""
    cache, mine = ReadingCache(), (None, Target("platform", "values", "ConfigMap"))
    cache.keep(mine, ReferencedData("1", {"values.yaml": b"replicas: 1"}))
    content = b"x" * MIB
    places = [("mallory", Target("mallory", f"large-{number}", "ConfigMap")) for number in range(100)]
    for place in places:
        cache.keep(place, ReferencedData("1", {"values.yaml": content}))
    kept = [place for place in places if cache.get(place) is not None]
    assert kept == places[-len(kept) :]
    assert MAX_CACHED_BYTES - 2 * MIB < len(kept) * MIB <= MAX_CACHED_BYTES
    assert cache.get(mine) is not None


def test_an_object_that_is_read_again_or_forgotten_counts_once_or_not_at_all() -> None:
    cache, place = ReadingCache(most=3 * MIB), (None, Target("a", "b", "Secret"))
    for _ in range(10):
        cache.keep(place, ReferencedData("1", {"key": b"x" * MIB}))
        assert cache.get(place) is not None
    cache.forget(place)
    cache.forget(place)
    others = [(None, Target("a", str(number), "Secret")) for number in range(2)]
    for other in others:
        cache.keep(other, ReferencedData("1", {"key": b"x" * MIB}))
    assert all(cache.get(other) is not None for other in others)


def test_many_small_keys_count_for_what_they_take() -> None:
    cache, place = ReadingCache(most=MIB), (None, Target("a", "b", "ConfigMap"))
    cache.keep(place, ReferencedData("1", {str(number): b"" for number in range(10_000)}))
    assert cache.get(place) is None
