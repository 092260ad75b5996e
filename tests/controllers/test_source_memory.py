"""Source objects take a bounded part of the memory, and a sync that finds no room waits for its turn."""

import asyncio

import pytest

from syncline.controllers.errors import SyncError
from syncline.controllers.sources import source_memory
from syncline.controllers.sources.source_memory import (
    FREE_BYTES,
    MAX_HELD_BYTES,
    MAX_SOURCE_BYTES,
    SHARED_BYTES,
    SHARED_BYTES_OF_NAMESPACE,
    NoRoomError,
    SourceAccount,
    SourceMemory,
)

MIB = 1024 * 1024
LARGE = b"x" * (12 * MIB)


def fill(memory: SourceMemory, namespace: str) -> None:
    """Take as much as a namespace gets."""
    for _ in range(100):
        SourceAccount(memory, namespace).take(LARGE)


def test_sources_of_the_usual_size_wait_for_nobody() -> None:
    memory = SourceMemory()
    with pytest.raises(NoRoomError):
        fill(memory, "mallory")
    assert memory.used <= SHARED_BYTES_OF_NAMESPACE
    SourceAccount(memory, "mallory").take(b"x" * (FREE_BYTES - 1000))
    SourceAccount(memory, "platform").take(LARGE)


def test_all_namespaces_have_no_more_than_there_is() -> None:
    memory = SourceMemory()
    for namespace in ("a", "b", "c"):
        with pytest.raises(NoRoomError):
            fill(memory, namespace)
        assert memory.used <= SHARED_BYTES
    assert memory.used > SHARED_BYTES - 3 * len(LARGE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x" * (MAX_SOURCE_BYTES + 1), "have more than 16 MiB together"),
        (b"[" * (MAX_HELD_BYTES // 100), "take more than 48 MiB of memory together"),
    ],
)
def test_one_sync_has_a_limit_by_its_text_and_by_what_that_takes(text: bytes, message: str) -> None:
    memory = SourceMemory()
    with pytest.raises(SyncError) as refused:
        SourceAccount(memory, "a").take(text)
    assert (refused.value.reason, refused.value.stalled) == ("SourceTooLarge", True)
    assert refused.value.message == f"select fewer objects, or make several syncs: the sources {message}"


async def test_syncs_without_room_get_their_turn_one_of_a_namespace_at_a_time() -> None:
    memory, order, at_once = SourceMemory(), [], 0
    for namespace in ("mallory", "platform"):
        with pytest.raises(NoRoomError):
            fill(memory, namespace)

    async def reconcile(namespace: str) -> None:
        nonlocal at_once
        account = SourceAccount(memory, namespace)
        with pytest.raises(NoRoomError):
            account.take(LARGE)
        await account.wait_for_room()
        at_once += 1
        assert at_once <= source_memory.LARGE
        account.take(LARGE)
        await asyncio.sleep(0)
        at_once -= 1
        order.append(namespace)
        account.release()

    await asyncio.gather(*map(reconcile, ["mallory"] * 20 + ["platform"]))
    assert order.index("platform") <= 2
    assert len(order) == 21


async def test_a_sync_that_waits_for_long_says_so_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_memory, "PATIENCE", 0.01)
    memory = SourceMemory()
    holder, late = SourceAccount(memory, "mallory"), SourceAccount(memory, "mallory")
    await holder.wait_for_room()
    with pytest.raises(SyncError) as told:
        await late.wait_for_room()
    assert (told.value.reason, told.value.requeue.backoff) == ("SourceTooLarge", True)
    late.release()
    holder.release()
    holder.release()
    await late.wait_for_room()


def test_what_was_dropped_does_not_count() -> None:
    memory = SourceMemory()
    account = SourceAccount(memory, "a")
    account.take(b"x" * MIB)
    before, used = account.balance(), memory.used
    account.take(LARGE)
    account.go_back_to(before)
    assert memory.used == used
    account.release()
    assert memory.used == 0
