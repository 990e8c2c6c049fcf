"""All runs of this orchestrator: takes them on, goes on with those it has claimed, brings them what arrives."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, DataLoss, ResourceExhausted, Unavailable, UnknownRun
from archon_mesh.core.run import RunState
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.budget import limits
from archon_mesh.core.run.types import Submission, TaskState
from archon_services.orchestrator.convert.command import decode_command
from archon_services.orchestrator.convert.read import amount_from_usage
from archon_services.orchestrator.convert.write import stamp
from archon_services.orchestrator.journal import CommandRow, Journal, NewRun, RunRow
from archon_services.orchestrator.ports import Clock, Delivery, Receipt, Transport
from archon_services.orchestrator.runs.driver import RunDriver
from archon_services.orchestrator.runs.load import load_run
from archon_services.orchestrator.runs.quarantine import quarantine
from archon_services.orchestrator.runs.session_history import TurnQueue
from archon_services.orchestrator.watch.hub import WatchHub

_log = logging.getLogger(__name__)

MAX_RUNS: Final = 5_000
MAX_ENDED: Final = 256
MAX_STALLED: Final = 3
"""So many claims without an event since end a run as QUARANTINED."""


class Runs:
    """`owner` is this process's incarnation: new with every start."""

    def __init__(
        self, *, owner: str, clock: Clock, journal: Journal, new_id: Callable[[], str], max_runs: int = MAX_RUNS
    ) -> None:
        self.owner = owner
        self.watchers = WatchHub(journal)
        self._clock = clock
        self._journal = journal
        self._new_id = new_id
        self._max_runs = max_runs
        self._transport: Transport | None = None
        self._drivers: dict[str, RunDriver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._ended: OrderedDict[str, RunState] = OrderedDict()
        self._turns = TurnQueue()
        self._started = False
        self._awaited: set[str] = set()
        self._closing = False

    def start(self, transport: Transport) -> None:
        """From now on runs are taken on and taken up."""
        self._transport = transport

    @property
    def room(self) -> int:
        """See ownership.Held."""
        return 0 if self._closing else self._max_runs - len(self._drivers)

    def holds(self, run_id: str) -> bool:
        """See ownership.Held."""
        return run_id in self._drivers

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow], clock: Clock) -> None:
        """See ownership.Held. A run that was taken up again and again in vain is ended without being looked into."""
        run_id = row.run_id
        earlier = self._drivers.get(run_id)
        if earlier is not None and earlier.epoch > row.epoch:  # claimed again since, and taken up before this one
            return
        self._awaited.add(run_id)
        if earlier is not None:  # its creation may not be answered yet
            earlier.depose()
        if (before := self._tasks.get(run_id)) is not None:  # of an earlier epoch, and stuck in the journal
            before.cancel()
            await asyncio.wait([before])
        if row.stalled >= MAX_STALLED:
            await quarantine(self._journal, row, clock.now())
            self._awaited.discard(run_id)
            return
        try:
            state = await load_run(self._journal, run_id)
        except DataLoss as error:
            _log.error("run %s can't be folded: %s", run_id, error)
            return
        # Claimed again by another meanwhile, or claimed in a name that has been buried since: it is anybody's.
        if state.epoch > row.epoch or row.owner != self.owner:
            self._awaited.discard(run_id)
            return
        first = [Delivery(inp.Claim(self.owner, row.epoch)), *(_delivery(command) for command in commands)]
        driver = self._driver(run_id, state, row.epoch, first, clock)
        self._drivers[run_id] = driver
        self._awaited.discard(run_id)
        self._run(run_id, driver)

    def command(self, row: CommandRow) -> None:
        """See ownership.Held."""
        driver = self._drivers.get(row.run_id)
        if driver is not None:
            driver.offer(_delivery(row))

    def release_all(self) -> None:
        """See ownership.Held."""
        for driver in self._drivers.values():
            driver.depose()

    def claimed(self) -> None:
        """Everything that was left to this process has been taken up: what concerns other runs doesn't concern it."""
        self._started = True

    async def stop(self) -> None:
        """Stops driving; nothing of any run changes by that. Idempotent."""
        self._closing = True
        self.watchers.close()
        tasks = [*self._tasks.values(), *self._asking]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def submit(self, submission: Submission, payload_hash: bytes) -> tuple[str, bool]:
        """Takes a run on: durable when this returns. (run_id, True), or (the run of the same request id, False).
        Raises ResourceExhausted above the bound of runs, and what the journal raises."""
        assert self._transport is not None, "not started"
        if self._closing:
            raise Unavailable("the orchestrator is stopping", retry_delay=1.0)
        if len(self._drivers) >= self._max_runs:
            raise ResourceExhausted(f"{self._max_runs} runs are under way", retry_delay=1.0)
        new = NewRun(
            submission.run_id, submission.tenant, submission.request_id, payload_hash, submission.session_id, self.owner
        )
        first = [Delivery(inp.Submit(submission, self.owner, 1))]
        driver = self._driver(submission.run_id, RunState(), 1, first, self._clock, new)
        self._drivers[submission.run_id] = driver
        try:
            await driver.step()
        except BaseException:
            self._forget(driver)
            raise
        if driver.same_as:
            self._forget(driver)
            return driver.same_as, False
        if self._drivers.get(submission.run_id) is driver:
            self._run(submission.run_id, driver)
        else:  # claimed in another name before its creation was answered, and taken up again here
            driver.depose()
            await driver.run()
        return submission.run_id, True

    def _forget(self, driver: RunDriver) -> None:
        driver.call_off()
        if self._drivers.get(driver.run_id) is driver:
            del self._drivers[driver.run_id]

    def new_id(self) -> str:
        """An id for a run."""
        return self._new_id()

    def _driver(
        self,
        run_id: str,
        state: RunState,
        epoch: int,
        first: list[Delivery],
        clock: Clock,
        new: NewRun | None = None,
    ) -> RunDriver:
        assert self._transport is not None, "not started"
        return RunDriver(
            run_id,
            clock=clock,
            journal=self._journal,
            transport=self._transport,
            publish=self.watchers.publish,
            state=state,
            epoch=epoch,
            first=first,
            new=new,
            turns=self._turns,
        )

    def _run(self, run_id: str, driver: RunDriver) -> None:
        task = asyncio.create_task(self._guarded(run_id, driver), name=f"run-{run_id}")
        self._tasks[run_id] = task

    async def _guarded(self, run_id: str, driver: RunDriver) -> None:
        try:
            await driver.run()
        except Exception:  # noqa: BLE001 - an error of one run hurts no other
            _log.exception("the driver of run %s failed", run_id)
            self._awaited.add(run_id)
        finally:
            if self._drivers.get(run_id) is driver:  # and not one that has taken the run up again since
                del self._drivers[run_id]
                self._tasks.pop(run_id, None)
                self._let_go(driver)
            if driver.state.ended:
                self._ended[run_id] = driver.state  # whoever waited for the end asks for it at once
                if len(self._ended) > MAX_ENDED:
                    self._ended.popitem(last=False)

    def _let_go(self, driver: RunDriver) -> None:
        """Nothing is to be counted any more of what wasn't heard to the end."""
        over = driver.state.ended and not driver.deposed and driver.state.epoch == driver.epoch
        if self._transport is not None and not (over and driver.state.state is TaskState.COMPLETED):
            self._transport.release_run(driver.run_id, over=over)

    def deliver(self, run_id: str, delivery: Delivery) -> None:
        """See ports.Inbox. What concerns no run of ours doesn't count; a run that is still to be taken up says nothing
        yet: its agents keep what they have and are asked for it."""
        driver = self._drivers.get(run_id)
        if driver is not None:
            driver.offer(delivery)
        elif delivery.receipt is not None and self._started and not self._closing:
            if self._journal.shared:
                self._ask(run_id, delivery.receipt)
            elif run_id not in self._awaited:
                delivery.receipt.discard("UNKNOWN_RUN")

    def _ask(self, run_id: str, receipt: Receipt) -> None:
        """Another replica's run, or one that is over: the journal knows. Its owner asks the agent for what it has."""

        async def ask() -> None:
            assert self._transport is not None
            try:
                row = await self._journal.run(run_id)
                if row is None or row.ended_at:
                    self._awaited.discard(run_id)  # another one ended it
                    receipt.discard("UNKNOWN_RUN", row.epoch if row is not None else 0)
                    return
            except ArchonError as error:
                _log.info("whose run %s is can't be asked now: %s", run_id, error)
            if run_id not in self._drivers:  # taken up meanwhile: what is bound by now is ours
                self._transport.release_run(run_id)

        task = asyncio.create_task(ask(), name=f"ask-{run_id}")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def progress(self, ref: common_pb2.TaskRef, progress: agent_pb2.Progress) -> None:
        """See ports.Inbox. Passing events go to watchers and nowhere else; none of an attempt that is over."""
        driver = self._drivers.get(ref.run_id)
        task = driver.state.tasks.get(ref.task_id) if driver is not None else None
        if driver is None or task is None or not task.live or task.attempt != ref.attempt:
            return
        if progress.HasField("usage") and any(limits(driver.state, task)):
            driver.offer(Delivery(inp.UsageIn(ref.task_id, ref.attempt, amount_from_usage(progress.usage))))
        if not self.watchers.watched(ref.run_id):
            return
        event = run_pb2.RunEvent(run_id=ref.run_id, task=ref)
        stamp(event.time, self._clock.now())
        match progress.WhichOneof("content"):
            case "text":
                event.text_delta.role, event.text_delta.text = task.role, progress.text
                event.text_delta.offset = progress.offset
            case "tool_event":
                told = progress.tool_event
                event.tool_event.role, event.tool_event.call_id = task.role, told.call_id
                event.tool_event.tool_name, event.tool_event.failed = told.tool_name, told.failed
                event.tool_event.arguments_json, event.tool_event.result_json = told.arguments_json, told.result_json
            case _:
                return
        self.watchers.publish(ref.run_id, [event], driver.state.last_seq)

    async def finished(self, run_id: str) -> None:
        """Returns when the run has ended, or isn't ours."""
        driver = self._drivers.get(run_id)
        if driver is not None:
            await driver.finished.wait()

    def held(self, run_id: str) -> RunState | None:
        """The state of a run that is under way or has just ended; None: the journal has it."""
        driver = self._drivers.get(run_id)
        if driver is None:
            return self._ended.get(run_id)
        return driver.state if driver.state.submission is not None and not driver.doubtful else None

    async def state(self, run_id: str) -> RunState:
        """A run as it stands: held, or folded. Raises UnknownRun."""
        if (held := self.held(run_id)) is not None:
            return held
        state = await load_run(self._journal, run_id)
        if state.submission is None:
            raise UnknownRun(f"no run has the id {run_id!r}", metadata={"run_id": run_id})
        return state


def _delivery(row: CommandRow) -> Delivery:
    return Delivery(decode_command(row.data, row.run_id), posted=row.row_id)
