"""An event loop in a thread, for synchronous tests."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in a thread and waits for them. It ends with its `with` block, and so do its tasks."""

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
        """Run a coroutine to its end and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def _run(self) -> None:
        # The runner ends the remaining tasks, async generators and the executor.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
            runner.run(_end_connections())


async def _end_connections() -> None:
    """Close all connections of the loop: one whose client does not answer the end of TLS would outlive it, open."""
    transports: Mapping[int, asyncio.Transport] = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other list
    for transport in tuple(transports.values()):
        transport.abort()
    await asyncio.sleep(0)


class OnLoop(ABC):
    """Runs on its own event loop for the duration of its `with` block."""

    thread_name: ClassVar[str]
    _stack: ExitStack
    _thread: LoopThread

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._prepare(stack)
            self._thread = stack.enter_context(LoopThread(self.thread_name))
            self._thread.run(self._open())
            stack.callback(lambda: self._thread.run(self._close()))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _prepare(self, stack: ExitStack) -> None:  # noqa: B027 - most have nothing to do
        """Prepare before the loop starts. The contexts on the stack end after the loop."""

    @abstractmethod
    async def _open(self) -> None:
        """Begin, on the loop."""

    @abstractmethod
    async def _close(self) -> None:
        """End, on the loop."""
