"""A simulated process that publishes and subscribes: the driver's own publishers and subscriptions, and programs that use them.

A program is a task of its own. What a thread would wait for in the driver, a program pauses for; the data plane has turns meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from cep.errors import CepError
from cep.model.ids import name_id
from cep.transport.wire import Header
from cep.world.rings import Owner, Ring, Rings, place_of
from driver.rest import NotLeading, Rest, Unreachable, error_of
from driver.streams.background import Aside
from driver.streams.data_plane import TICK_NS, DataPlane
from driver.streams.messages import Messages
from driver.streams.own_rings import OwnRings
from driver.streams.producers import SubscriptionOptions
from driver.streams.publisher import Steps
from driver.streams.resuming.tokens import ResumeToken
from driver.streams.subscription import Subscription
from simulation.clock import ProcessClock
from simulation.rest import BROKEN_OFF, REFUSED, FrontDoor
from simulation.schedule import MS, S, SeededSchedule, Task
from simulation.sockets import SimulatedNetwork, SimulatedSockets

AGAIN_NS = 100 * MS  # after which an orchestrator is asked again that did not lead
PATIENCE_S = 60.0  # with a cluster that is away: longer than it is here, so that what should not be noticed is not
LOOK_NS = 500 * MS  # so often a program looks whether the one that it has asked is there yet

T = TypeVar("T")
Program = Callable[[], None]
Heard = Callable[[Header, pa.RecordBatch], None]


MACHINE = "simulated"


class SimulatedRings(Rings):
    """Those of a simulated machine, where a process is known by its endpoint. Where they are is told without what no two runs share."""

    def __init__(self, folder: Path, network: SimulatedNetwork) -> None:
        super().__init__(folder, lambda owner: network.is_gone(owner.born))

    @property
    def place(self) -> dict[str, Any]:
        return {"folder": MACHINE}


class SimulatedOwnRings(OwnRings):
    """Those of one of its processes."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        super().__init__(f"{name_id(endpoint):016x}", lambda: Owner(MACHINE, 0, endpoint))
        self.folder = folder

    def at(self, place: Mapping[str, Any]) -> Ring | None:
        return super().at(place_of(self.folder))


class LostAnswer(Exception):
    """The process that was asked is dead."""


class ClientProcess:
    """Its sockets, its way to the orchestrator, and its programs."""

    def __init__(self, schedule: SeededSchedule, network: SimulatedNetwork, doors: list[FrontDoor], name: str, rings: Rings) -> None:
        self.schedule, self.name = schedule, name
        self.clock = ProcessClock(schedule)
        self.task = Task(schedule, self._turn, self.clock)
        sockets = network.open(f"ipc:///simulated/{name}", self.clock, self.task.wake)
        self.plane = SimulatedPlane(network, sockets, self.clock, rings.folder)
        self.rest = SimulatedRest(self, doors)
        self.programs: list[Task] = []

    def start(self) -> None:
        self.task.wake()

    def run(self, program: Program) -> Task:
        """Begins a program. It goes on until it ends, or the simulation does."""

        def turn() -> None:
            program()
            task.end()
            self.programs.remove(task)

        task = Task(self.schedule, turn, self.clock)
        if self.task.ended:  # it is dead
            task.end()
            return task
        self.programs.append(task)
        task.wake()
        return task

    def finish(self, steps: Steps[T]) -> T:
        """Drives what may have to wait to its end, in a program."""
        task = self.plane.current
        while True:
            try:
                wait = next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            task.wait(wait.holds)

    def result(self, answer: Future[T], gone: Callable[[], bool]) -> T:
        """What an orchestrator's service answers to a program. Raises LostAnswer where it is `gone` before."""
        answer.add_done_callback(lambda _: self.wake_programs())
        while not self.plane.current.wait(answer.done, LOOK_NS):
            if gone():
                raise LostAnswer
        return answer.result()

    def pause(self, ns: int) -> None:
        """A program does nothing for a while."""
        self.plane.current.pause_until(self.clock.now_ns + ns)

    def wake_programs(self) -> None:
        for task in self.programs:
            task.wake()

    def _turn(self) -> int:
        self.plane.turn()
        self.wake_programs()
        return self.clock.now_ns + TICK_NS

    def close(self) -> None:
        for task in (self.task, *self.programs):
            task.end()

    def kill(self) -> None:
        self.close()
        self.plane.sockets.close()


class SimulatedPlane(DataPlane):
    """What waits in it is a program."""

    def __init__(self, network: SimulatedNetwork, sockets: SimulatedSockets, clock: ProcessClock, folder: Path) -> None:
        self.schedule = schedule = network.schedule
        rings = SimulatedOwnRings(folder, sockets.endpoint)
        super().__init__(sockets, clock, lambda: f"{schedule.choose.getrandbits(48):012x}", network.is_gone, rings=rings)

    def next_of(self, messages: Messages[Any], timeout: float) -> Any:
        self.current.wait(lambda: not messages.empty(), round(timeout * 1e9))
        return messages.get_nowait()

    @property
    def current(self) -> Task:
        assert self.schedule.current is not None
        return self.schedule.current


class SimulatedRest(Rest):
    """The way to the orchestrators. One that does not lead is not asked twice in a row."""

    def __init__(self, process: ClientProcess, doors: list[FrontDoor]) -> None:
        self.process, self.doors = process, doors
        self.aside = SimulatedAside(process)
        self.url, self.patience_s, self.away_since = "simulated", PATIENCE_S, 0.0
        self.gone = lambda: ""
        self._answering = 0  # which of the doors answered last

    def _call(self, method: str, path: str, again: bool = False, **options: Any) -> Any:
        task, clock = self.process.schedule.current, self.process.clock
        assert task is not None
        deadline_ns, which = clock.now_ns + int(self.patience_s * S), self._answering
        while True:
            found = self._ask(task, self.doors[which % len(self.doors)], method, path, options.get("json"))
            if not isinstance(found, CepError):
                self._answering = which
                return found
            away = isinstance(found, Unreachable)
            safe = again or method in ("GET", "PUT", "DELETE") or not isinstance(found, Unreachable) or found.refused
            if not (away or isinstance(found, NotLeading)) or not safe or clock.now_ns > deadline_ns:
                raise found
            which += 1
            task.pause_until(clock.now_ns + AGAIN_NS)

    def _ask(self, task: Task, door: FrontDoor, method: str, path: str, document: Any) -> Any:
        """The answer, or the error that it tells of."""
        found: list[Any] = []

        def answered(is_answer: bool, said: Any) -> None:
            found.append(said if is_answer else self._error(said))
            task.wake()

        door.request(self.process.clock, method, path, document, answered)
        task.wait(lambda: bool(found))
        return found[0]

    def _error(self, said: Any) -> CepError:
        """What a problem document tells of, or that there is none to write one."""
        if said in (REFUSED, BROKEN_OFF):
            text = f"the orchestrator at {self.url}: {said}"  # without the time, which is the real one
            return Unreachable(self.url, 0.0, said == REFUSED, ConnectionError(said), text)
        return error_of(said)


class SimulatedAside(Aside):
    """Asks in a program of its own, as `driver.streams.background.Aside` does in a thread."""

    def __init__(self, process: ClientProcess) -> None:
        super().__init__()
        self.process = process
        self._asked: set[Hashable] = set()

    def ask(self, asker: Hashable, question: Callable[[], None]) -> None:
        if asker in self._asked:
            return
        self._asked.add(asker)

        def program() -> None:
            try:
                question()
            finally:
                self._asked.discard(asker)
                self.process.wake_programs()

        self.process.run(program)


class HeardSubscription(Subscription):
    """One that tells what it takes, batch by batch as it was sent."""

    def __init__(
        self, process: ClientProcess, stream: str, options: SubscriptionOptions, heard: Heard, resume: ResumeToken | None = None
    ) -> None:
        super().__init__(process.rest, process.plane, stream, options, resume=resume)
        self._heard = heard

    def take(self, header: Header, body: Any) -> pa.RecordBatch | None:
        batch = super().take(header, body)
        if batch is not None:
            self._heard(header, batch)
        return batch

    def _with_following(self, channel: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch
