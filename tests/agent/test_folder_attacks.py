"""What a compromised gateway can do to its agent through the folder that they share: nothing outside of it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, until

FOLDER = "projects/line/views"
VIEW = f"{FOLDER}/view.json"
PROJECT = {"projects/line/project.json": '{"title": "Line"}', VIEW: '{"v": 0}'}
ROUNDS = 10
HERE, RENAME_EXCHANGE = -100, 2


def edited(version: int) -> dict[str, str]:
    """Return the files of a later commit."""
    return {**PROJECT, VIEW: f'{{"v": {version}}}', f"{FOLDER}/new-{version}.json": "{}"}


@contextmanager
def flipping(folder: Path, outside: Path) -> Iterator[None]:
    """Have a folder be a link and a folder again, by one step each, as fast as possible; in the end, the folder."""
    ended, aside, libc = Event(), folder.with_name("aside"), ctypes.CDLL(None)
    aside.symlink_to(outside)

    def exchange() -> None:
        assert libc.renameat2(HERE, os.fsencode(folder), HERE, os.fsencode(aside), RENAME_EXCHANGE) == 0

    def flip() -> None:
        while not ended.is_set():
            exchange()
            exchange()

    thread = Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_folder_that_the_gateway_replaces_by_a_link_leads_nowhere(
    plain: AgentProcess, depot: PlanDepot, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "view.json").write_text("of somebody else")
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    (plain.data / FOLDER).rename(tmp_path / "aside")
    (plain.data / FOLDER).symlink_to(outside)
    plan = depot.publish(edited(1))
    report = plain.until_reported(lambda one: one.plan == plan.id and one.state == "Error")
    assert FOLDER in report.message
    assert [path.name for path in outside.iterdir()] == ["view.json"]
    assert (outside / "view.json").read_text() == "of somebody else"
    (plain.data / FOLDER).unlink()
    plain.until_synced(plan.id)
    assert plain.files() == edited(1)


def test_a_race_between_the_check_and_the_write_leads_nowhere(
    plain: AgentProcess, depot: PlanDepot, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    with flipping(plain.data / FOLDER, outside):
        for version in range(1, ROUNDS + 1):
            plan = depot.publish(edited(version))
            plain.until_reported(
                lambda one, plan=plan: one.plan == plan.id and one.state in ("Synced", "Error", "Pending")
            )
    assert not any(outside.iterdir())
    plan = depot.publish(edited(0))
    plain.until_synced(plan.id)
    until(lambda: plain.files().items() >= edited(0).items(), plain.log)
    assert not any(outside.iterdir())
