"""An event loop in a thread of its own, so that tests without one can use what needs one."""

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines elsewhere and waits for them. Ends with its `with` block, and all its tasks with it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
        """Run a coroutine to its end and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def _run(self) -> None:
        # The runner ends what is left: tasks, async generators, the executor.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
