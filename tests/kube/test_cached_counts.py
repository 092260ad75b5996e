"""The number of cached objects: caches of several clusters add up, and one that ends counts no more."""

from prometheus_client import REGISTRY

from syncline.kube.metrics import CachedCount


def counted() -> float | None:
    return REGISTRY.get_sample_value("syncline_cached_objects", {"resource": "widgets", "part": "all"})


def test_the_caches_of_several_clusters_add_up_and_the_series_ends_with_the_last() -> None:
    here, there = CachedCount("widgets", "all"), CachedCount("widgets", "all")
    here.set(3)
    there.set(40)
    assert counted() == 43
    here.set(2)
    assert counted() == 42
    there.end()
    there.end()
    assert counted() == 2
    here.end()
    assert counted() is None
    here.set(0)
    assert counted() == 0
    here.end()
    assert counted() is None
