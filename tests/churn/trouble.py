"""What goes wrong while users work: crashes, freezes, restarts, refusals, and answers that never arrive."""

import contextlib
import threading
import time
from collections.abc import Callable
from random import Random

from tests.churn.history import History
from tests.churn.world import World

from syncline.sandbox import SandboxError
from syncline.testing.faults import Asked, Fault

_LONGEST = 25.0


class Trouble:
    """Threads that make trouble until they are told to stop; then everything is whole again."""

    def __init__(self, world: World, history: History, rng: Random, pace: float) -> None:
        self._world = world
        self._history = history
        self._rng = rng
        self._pace = pace
        self._stop = threading.Event()
        far = 2 if world.far is not None else 0
        self._players = [
            threading.Thread(target=self._play_lag, daemon=True),
            # Of each group one at a time; two groups may well meet.
            self._player((4, self._kill_operator), (1, self._restart_operator), (3, self._freeze_operator)),
            self._player(
                (3, self._freeze_server), (2, self._freeze_etcd), (2, self._restart_server), (far, self._freeze_far)
            ),
            self._player((4, self._refuse), (4, self._lose), (3, self._slow), (2, self._cut), (1, self._expire)),
        ]

    def start(self) -> None:
        """Begin."""
        for player in self._players:
            player.start()

    def end(self) -> None:
        """Stop, and mend everything."""
        self._stop.set()
        for player in self._players:
            player.join()
        self._world.lag.limit = 0.0
        self._world.mend()

    def _player(self, *kinds: tuple[int, Callable[[], None]]) -> threading.Thread:
        return threading.Thread(target=self._play, args=kinds, daemon=True)

    def _play(self, *kinds: tuple[int, Callable[[], None]]) -> None:
        while not self._stop.wait(self._rng.uniform(0.3, 1.7) * self._pace):
            what = self._rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
            with contextlib.suppress(SandboxError):
                what()

    def _play_lag(self) -> None:
        while not self._stop.is_set():
            self._world.lag.limit = self._rng.choice((0.0, 0.3, 1.0, 1.0))
            self._stop.wait(self._rng.uniform(3, 15))

    def _seconds(self) -> float:
        """Draw how long: mostly short, now and then very long."""
        return self._rng.choice((self._rng.uniform(0.5, 3), self._rng.uniform(0.5, 3), self._rng.uniform(3, _LONGEST)))

    def _kill_operator(self) -> None:
        number = self._rng.randrange(len(self._world.operators))
        self._history.tell("kill -9", f"operator {number}")
        self._world.kill_operator(number)
        self._stop.wait(self._rng.uniform(0, 3))
        self._world.start_operator(number)

    def _restart_operator(self) -> None:
        number = self._rng.randrange(len(self._world.operators))
        self._history.tell("restart", f"operator {number}")
        self._world.stop_operator(number)
        self._world.start_operator(number)

    def _freeze_operator(self) -> None:
        number = self._rng.randrange(len(self._world.operators))
        operator = self._world.operators[number]
        if operator is None or operator.returncode is not None:
            return
        seconds = self._seconds()
        self._history.tell("freeze", f"operator {number}", seconds=round(seconds, 1))
        operator.pause()
        self._stop.wait(seconds)
        operator.resume()

    def _freeze(self, component: str) -> None:
        seconds = self._seconds()
        self._history.tell("freeze", component, seconds=round(seconds, 1))
        self._world.sandbox.pause(component)
        self._stop.wait(seconds)
        self._world.sandbox.resume(component)

    def _freeze_server(self) -> None:
        self._freeze("kube-apiserver")

    def _freeze_etcd(self) -> None:
        self._freeze("etcd")

    def _freeze_far(self) -> None:
        assert self._world.far is not None
        seconds = self._seconds()
        self._history.tell("freeze", "the second cluster", seconds=round(seconds, 1))
        self._world.far.pause("kube-apiserver")
        self._stop.wait(seconds)
        self._world.far.resume("kube-apiserver")

    def _restart_server(self) -> None:
        self._history.tell("restart", "kube-apiserver")
        self._world.sandbox.kill("kube-apiserver")
        self._stop.wait(self._rng.uniform(0, 3))
        self._world.sandbox.start("kube-apiserver")

    def _refuse(self) -> None:
        status = self._rng.choice((409, 429, 500, 503, 504))
        fault = Fault(status=status, retry_after=1 if status == 429 else None)
        self._some(fault, f"answers {status}", reads=self._rng.random() < 0.3 and status != 409)

    def _lose(self) -> None:
        if self._rng.random() < 0.5:
            self._some(Fault(lost=True), "loses requests")
        else:
            self._some(Fault(cut=True), "loses answers")

    def _slow(self) -> None:
        seconds = self._rng.uniform(0.2, 4)
        self._some(Fault(delay=seconds), f"takes {seconds:.1f} s")

    def _some(self, fault: Fault, words: str, *, reads: bool = False) -> None:
        """Let a fault befall a share of the operator's requests, for a while."""
        share, seconds = self._rng.choice((0.1, 0.3, 0.7)), self._rng.uniform(1, 8)
        dice = Random(self._rng.random())

        def befalls(asked: Asked) -> bool:
            wanted = asked.changes or (reads and asked.verb in ("get", "list"))
            return wanted and asked.resource != "leases" and dice.random() < share

        self._history.tell("proxy", words, share=share, seconds=round(seconds, 1), reads=reads)
        rule = self._world.proxy.inject(fault, when=befalls)
        self._stop.wait(seconds)
        rule.lift()
        self._world.proxy._rules.remove(rule)

    def _cut(self) -> None:
        self._history.tell("proxy", "cuts all watches")
        self._world.proxy.cut_watches()

    def _expire(self) -> None:
        self._history.tell("proxy", "expires watches")
        self._world.lag.expiring = 0.3
        self._stop.wait(self._rng.uniform(0.5, 2))
        self._world.lag.expiring = 0.0


def wait_until_ready(world: World, seconds: float = 60.0) -> None:
    """Wait until an operator says that it is ready."""
    deadline = time.monotonic() + seconds
    while not any(operator is not None and operator.is_ready() for operator in world.operators):
        if time.monotonic() > deadline:
            raise TimeoutError("no operator is ready")
        time.sleep(0.1)
