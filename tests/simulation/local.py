"""Plans in processes of their own, in virtual time: PlanExecutors whose processes are killed, frozen, stopped and
started again over their journals."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, ClassVar, Final, cast

from typing_extensions import override

from archon.errors import (
    ApprovalRejected,
    ArchonError,
    BudgetExhausted,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    OperationCancelled,
    QuestionTimedOut,
    ResourceExhausted,
    Unavailable,
)
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import Task as RunTask
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import ReplanPolicy, SubTask, SubTaskStatus, Task, carry_over, expanded
from archon_mesh.engine.plan_state import keeps_task
from archon_mesh.planning import (
    Alignment,
    JournalInUse,
    PlanEvent,
    PlanEventKind,
    PlanExecutor,
    PlanFailed,
    PlanJournal,
    Spending,
    run_clock,
)
from archon_mesh.planning.records import PlanRecords
from archon_mesh.tools import ToolRegistry, tool
from archon_mesh.tools.result import ToolOutcome, ToolResult
from tests.simulation.check import Book, Execution, Violation, must
from tests.simulation.faults import Dice
from tests.simulation.loop import PROCESS, Process, VirtualLoop
from tests.simulation.plans import validate_checks, validate_steps
from tests.simulation.validator import validate_attempts, validate_executions

WALL: Final = 1_700_000_000.0
PATIENCE: Final = 120.0
"""Virtual seconds after the last fault in which every plan must end."""

ENDS: Final = (ApprovalRejected, BudgetExhausted, QuestionTimedOut, DeadlineExceeded)
"""Errors of a run that has ended by a person or a limit."""

ATTEMPT: ContextVar[tuple[str, int]] = ContextVar("simulated_attempt")


class Died(BaseException):
    """The process has been killed: what called it never goes on."""


class Disk:
    """The journal of one plan, which outlives its processes; and what it must hold at any time."""

    def __init__(self, world: LocalWorld, player: Player) -> None:
        self._world = world
        self._player = player
        self._holder: Process | None = None
        self._records: list[bytes] = []
        self.book = Book(("", ""), None, 1)
        self.task: Task | None = None
        """The plan as the last process saw it at its last append."""
        self.opened_task: Task | None = None
        """The same when the journal was opened."""

    def open(self) -> Sequence[bytes]:
        if self._holder is not None and not self._holder.dead:
            raise JournalInUse("another process has the journal")
        self._holder, self.opened_task = PROCESS.get(), self.task
        return list(self._records)

    def append(self, records: Sequence[bytes]) -> None:
        process, dice = PROCESS.get(), self._world.dice
        if process is None or process.dead:
            raise Died  # its last calls are made when the loop is closed
        self._world.must("V2", process is self._holder, f"{process} writes to the journal of {self._holder}")
        if dice.fault("journal of a process full", 0.01):
            raise ResourceExhausted("the disk is full")
        if dice.fault("process killed before an append", 0.01):
            self._player.kill()
            raise Died
        self._store(records)
        if dice.fault("process killed after an append", 0.01):
            self._player.kill()
            raise Died

    def close(self) -> None:
        if PROCESS.get() is self._holder:
            self._holder = None

    @property
    def has_plan(self) -> bool:
        """Whether a plan was stored."""
        return any(record.startswith(b'[1,"plan"') for record in self._records)

    def _store(self, records: Sequence[bytes]) -> None:
        before = len(self.book.facts)
        self._records += records
        for event, at in PlanRecords(_Read(records)).stored.events:
            self.book.facts.append(event)
            self.book.times.append(at)
            try:
                apply(self.book.state, event, at)
            except Exception as error:  # noqa: BLE001 - every error makes the journal unreadable
                self._world.must("V6", False, f"cannot fold event {len(self.book.facts)}: {error!r}")
            if isinstance(event, ev.Dispatched):
                self.book.dispatched[event.task_id, event.attempt] = event
            self._world.must("V2", at >= max(self.book.times[:-1][-1:], default=0.0), "time goes back")
        executor = self._player.executor
        if len(self.book.facts) > before and executor is not None and executor.live_state is not None:
            same = executor.live_state == self.book.state
            self._world.must("V6", same, f"{self._player} differs from its journal after {len(self.book.facts)} events")
            self.task = executor.task
            self._world.inputs += len(records)


class _Read:
    """Records as a journal that is read once."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self._records = records

    def open(self) -> Sequence[bytes]:
        return self._records

    def append(self, records: Sequence[bytes]) -> None:
        raise AssertionError

    def close(self) -> None:
        pass


class Observed(PlanExecutor):
    """An executor that says which attempt an asyncio task makes, and shows its state."""

    @property
    def live_state(self) -> RunState | None:
        """The state of the run under way."""
        return self._run.state if self._run is not None else None

    @override
    async def _attempt(self, run: RunState, task: RunTask) -> inp.ResultIn:
        ATTEMPT.set((task.task_id, task.attempt))
        return await super()._attempt(run, task)


@tool(idempotent=False)
def act(work: str) -> str:
    """Acts, and must not act twice."""
    return work


@tool(idempotent=True)
def look(work: str) -> str:
    """Looks something up."""
    return work


class Player:
    """One plan, its planner and its worker, whichever process executes it."""

    plans: ClassVar = (10, 14)
    """How many plans a seed plays: at least, and at most."""

    def __init__(self, world: LocalWorld, number: int) -> None:
        self.number = number
        self.world = world
        self.disk = Disk(world, self)
        self.executor: Observed | None = None
        self.process: Process | None = None
        self.outcome = ""
        self.ledger: list[Execution] = []
        self._dead = asyncio.Event()
        self._plans = 0
        self._acted: Counter[str] = Counter()
        self._processes = 0
        self._plan = Task(f"plan{number}", "goal", "goal", self._steps(()))
        random = world.dice.random
        self._policy = ReplanPolicy(failures_of_subtask=random.randint(1, 3), max_replans=random.randint(1, 3))
        self._parallel = random.randint(1, 5)
        self._is_checked = random.random() < 0.4

    def __repr__(self) -> str:
        return f"plan {self.number}"

    async def play(self) -> None:
        """Executes the plan in one process after the other, until it has ended."""
        dice = self.world.dice
        while not self.outcome:
            self._processes += 1
            self._dead.clear()
            self.process = Process(f"{self} in process {self._processes}", self.world.loop)
            life, dead = self.process.start(self._live()), asyncio.create_task(self._dead.wait())
            await asyncio.wait([life, dead], return_when=asyncio.FIRST_COMPLETED)
            dead.cancel()
            if not self._dead.is_set():
                life.result()
            await asyncio.sleep(dice.random.uniform(0.01, 1.0))

    async def _live(self) -> None:
        journal: PlanJournal = self.disk
        executor = self.executor = Observed(
            self,
            planner=self,
            policy=self._policy,
            alignment=self._aligned if self._is_checked else None,
            max_parallel=self._parallel,
            journal=journal,
            on_event=self._reported,
            clock=self.world.loop.time,
            **self.options(),
        )
        try:
            ended = await (executor.resume_from() if self.disk.has_plan else executor.execute(self._plan))
            self._ended("COMPLETED", ended)
        except (PlanFailed, *ENDS):
            self._ended("FAILED", None)
        except (ResourceExhausted, OperationCancelled):
            pass  # another process goes on
        except Died:
            await asyncio.Event().wait()

    def options(self) -> dict[str, Any]:
        """Returns further options of the executor."""
        return {}

    def _ended(self, outcome: str, task: Task | None) -> None:
        state = self.disk.book.state
        is_durable = state.ended and state.state.name == outcome
        self.world.must("V5", is_durable, f"{self} has ended {outcome} before it was durable")
        if task is not None:
            self.world.must("V6", task == self.disk.task, f"{self} returned another plan than its journal has")
        self.outcome = outcome

    def kill(self) -> None:
        """Kills the process, as SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self._dead.set()

    # The worker ------------------------------------------------------------------------------------------------------

    tools = ToolRegistry([act, look])
    roles: Mapping[str, str] = {}

    async def call_tool(self, name: str, arguments: Mapping[str, Any], number: int, spending: Spending) -> ToolOutcome:
        if name == "act":
            self._acted[arguments["work"]] += 1
            once = self._acted[arguments["work"]] == 1
            self.world.must("V4", once, f"{self} acted again: {arguments['work']}")
        return ToolOutcome(ToolResult.success(await self._work(arguments["work"], spending)))

    async def ask_role(self, role: str, message: str, number: int, spending: Spending) -> ToolOutcome:
        raise AssertionError

    async def think(
        self,
        message: str,
        tools: Collection[str],
        number: int,
        spending: Spending,
        *,
        output: Mapping[str, Any] | None = None,
    ) -> str:
        return await self._work(message.splitlines()[0], spending)

    async def _work(self, work: str, spending: Spending) -> str:
        dice, (task_id, attempt) = self.world.dice, ATTEMPT.get()
        is_durable = (task_id, attempt) in self.disk.book.dispatched
        self.world.must("V5", is_durable, f"attempt {attempt} of {task_id} began before it was durable")
        spending.model_calls += 1
        await asyncio.sleep(dice.delay(0.2, "slow work"))
        if dice.fault("step of a process failed", 0.12):
            raise dice.random.choice([InvalidArgument("no"), Unavailable("busy"), ValueError("a bug")])
        self.ledger.append(Execution(task_id, attempt, ""))
        return f"<{work}>"

    # The planner -----------------------------------------------------------------------------------------------------

    async def create_plan(self, *arguments: Any, **options: Any) -> Task:
        raise AssertionError

    async def replan(self, task: Task, reason: str, *arguments: Any, **options: Any) -> Task:
        await self._think_about_it()
        self.world.dice.fired["plan of a process made anew"] += 1
        return carry_over(task, Task(task.id, task.original_query, task.goal, self._steps(())))

    async def expand(self, task: Task, places: Sequence[str], available_tools: Any = ()) -> Task:
        await self._think_about_it()
        self.world.dice.fired["plan of a process expanded"] += 1
        known = tuple(step.id for step in task.subtasks if step.id not in places)
        return expanded(task, Task(task.id, task.original_query, task.goal, self._steps(known)), places)

    def answer(self, task: Task) -> str | None:
        return None

    async def _think_about_it(self) -> None:
        dice = self.world.dice
        await asyncio.sleep(dice.delay(0.3, "slow planner"))
        if dice.fault("planner of a process failed", 0.05):
            raise Unavailable("no model")

    async def _aligned(self, task: Task) -> Alignment:
        dice = self.world.dice
        await asyncio.sleep(dice.delay(0.3, "slow check"))
        return Alignment("it strays" if dice.fault("plan of a process found misaligned", 0.1) else "")

    def _steps(self, known: Sequence[str]) -> tuple[SubTask, ...]:
        self._plans += 1
        random, steps = self.world.dice.random, list[SubTask]()
        for number in range(random.randint(1, 6)):
            earlier = [*known, *(step.id for step in steps)]
            work = f"do {number} of {self._plans}"
            named = random.choice(["", "", "act", "look"])
            steps.append(
                SubTask(
                    f"s{self._plans}x{number}" if random.random() < 0.8 else f"t{number}",
                    work,
                    tool_name=named,
                    tool_args={"work": work} if named else {},
                    dependencies=tuple(random.sample(earlier, min(len(earlier), random.randint(0, 2)))),
                    critical=random.random() < 0.2,
                    partial_input=random.random() < 0.3,
                    expand=not named and random.random() < 0.1 and self._plans < 8,
                    expand_on_failure=random.random() < 0.15 and self._plans < 8,
                )
            )
        return tuple({step.id: step for step in steps}.values())

    # Its caller ------------------------------------------------------------------------------------------------------

    def _reported(self, event: PlanEvent) -> None:
        state = self.disk.book.state
        if event.kind is PlanEventKind.CONTINUED:
            self.world.must("V6", event.task == self.disk.opened_task, f"{self} goes on with another plan than it had")
            self.world.dice.fired["plan continued"] += 1
        elif event.kind is PlanEventKind.SUBTASK_COMPLETED and event.subtask is not None:
            done = [task for task in state.tasks.values() if task.payload == event.subtask.result and task.ended]
            self.world.must("V5", bool(done), f"{event.subtask.id} was reported before its result was durable")

    def order(self) -> None:
        """Gives the executor a random command."""
        dice, executor, process = self.world.dice, self.executor, self.process
        state = executor.live_state if executor is not None else None
        if process is None or process.halted or executor is None or state is None or state.plan is None or self.outcome:
            return
        match dice.random.choice(["pause", "resume", "edit", "edit", "stop"]):
            case "pause":
                dice.fired["plan of a process paused"] += 1
                process.context.run(self._given, executor.pause)
            case "resume":
                process.context.run(self._given, executor.resume)
            case "stop":
                dice.fired["process stopped"] += 1
                executor.cancel()
            case "edit":
                if executor.task is not None and state.plan.steps:
                    process.context.run(self._given, lambda: executor.edit(self._edited(state, executor.task)))

    def resume(self) -> None:
        """Ends a pause."""
        if self.executor is not None and self.process is not None and not self.process.halted:
            self.process.context.run(self._given, self.executor.resume)

    def validate(self, dice: Dice) -> None:
        """Checks lines 2 to 4, 10, 18 to 20, 25, 27 and 28 on the journal of the ended plan."""
        book = self.disk.book
        must("V1", isinstance(book.facts[0], ev.Submitted) and isinstance(book.facts[-1], ev.RunEnded), self)
        validate_attempts(book.facts)
        validate_executions(book.facts, self.ledger)
        epoch = 0
        for event in book.facts:
            if isinstance(event, (ev.Submitted, ev.Claimed)):
                must("V2", event.epoch == epoch + 1, f"{event} after epoch {epoch}")
                epoch = event.epoch
            elif isinstance(event, ev.Dispatched):
                must("V2", event.epoch == epoch, f"{event} in epoch {epoch}")
            dice.fired["attempt lost with its process"] += isinstance(event, ev.Lost)
        validate_steps(book, dice)
        validate_checks(book, dice)

    def _given(self, command: Any) -> None:
        edits = sum(isinstance(event, ev.Planned) and bool(event.edit_id) for event in self.disk.book.facts)
        try:
            command()
        except (ArchonError, Died):
            return
        if command.__name__ == "<lambda>":
            now = sum(isinstance(event, ev.Planned) and bool(event.edit_id) for event in self.disk.book.facts)
            self.world.must("V5", now == edits + 1, f"an edit of {self} was acknowledged before it was durable")
            self.world.dice.fired["plan of a process edited"] += 1

    def _edited(self, state: RunState, task: Task | None) -> Task:
        assert task is not None
        assert state.plan is not None
        random, plan = self.world.dice.random, state.plan
        waiting = [
            step.id
            for step in task.subtasks
            if step.status is SubTaskStatus.PENDING
            and step.id in plan.tasks
            and not keeps_task(state.tasks[plan.tasks[step.id]], edited=True)
        ]
        if waiting and random.random() < 0.6:
            gone = random.choice(waiting)
            kept = [step for step in task.subtasks if step.id != gone]
            if any(gone in step.dependencies for step in kept):
                raise FailedPrecondition("others depend on it")
            return Task(task.id, task.original_query, task.goal, tuple(kept), task.context)
        self._plans += 1
        added = SubTask(f"e{self._plans}", f"do more of {self._plans}")
        return Task(task.id, task.original_query, task.goal, (*task.subtasks, added), task.context)


class LocalWorld:
    """Some plans and their machine."""

    def __init__(self, dice: Dice, loop: VirtualLoop, kind: type[Player] = Player) -> None:
        self.dice = dice
        self.loop = loop
        self.jump = 0.0
        self.inputs = 0
        self.violation: Violation | None = None
        self.players = [kind(self, number) for number in range(dice.random.randint(*kind.plans))]

    def must(self, line: str, holds: bool, why: object = "") -> None:
        """Keeps the first violation: raised at once, it would be treated as an error of a worker."""
        if not holds and self.violation is None:
            self.violation = Violation(f"{line}: at {self.loop.now:.3f} s: {why}")

    def wall(self) -> float:
        """The machine's clock, which jumps."""
        return WALL + self.loop.now + self.jump

    async def trouble(self, seconds: float) -> None:
        """Kills, freezes and orders processes for a while."""
        dice, end = self.dice, self.loop.now + seconds
        while self.loop.now < end:
            await asyncio.sleep(dice.random.uniform(0.02, 0.3))
            player = dice.random.choice(self.players)
            process = player.process
            if process is None or process.dead or player.outcome:
                continue
            if dice.fault("process killed", 0.15):
                player.kill()
            elif dice.fault("process frozen", 0.05):
                process.halt()
                self.loop.call_later(dice.random.uniform(0.1, 3.0), _thaw, process)
            elif dice.fault("clock of the machine jumps", 0.05):
                self.jump += dice.random.choice([-3600.0, 3600.0])
            else:
                player.order()
        dice.calm = True


def _thaw(process: Process) -> None:
    if not process.dead:
        process.go_on()


@contextmanager
def _machine(world: LocalWorld) -> Any:
    """Within the block runs of plans use virtual time."""
    clock = SimpleNamespace(monotonic=world.loop.time, time=world.wall)
    setattr(run_clock, "time", clock)  # noqa: B010 - mypy knows a module
    try:
        yield
    finally:
        setattr(run_clock, "time", time)  # noqa: B010


async def local_course(dice: Dice, seconds: float, kind: type[Player] = Player) -> tuple[int, Counter[str]]:
    """Plays plans in processes, with faults for so many seconds. Returns the number of inputs, and the states of the
    plans. Raises Violation."""
    loop = cast(VirtualLoop, asyncio.get_running_loop())
    world = LocalWorld(dice, loop, kind)
    with _machine(world):
        playing = [
            asyncio.create_task(_later(player, dice.random.uniform(0, seconds * 0.7))) for player in world.players
        ]
        trouble = asyncio.create_task(world.trouble(seconds))
        end = loop.now + seconds + PATIENCE
        while loop.now < end and not all(task.done() for task in playing):
            await asyncio.wait([*playing, trouble], timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
            _raise(world, [*playing, trouble])
            if dice.calm:
                for player in world.players:
                    player.resume()
            if trouble.done():
                await asyncio.sleep(0.5)
        _raise(world, [*playing, trouble])
        left = [f"{player}: {player.disk.book.facts[-3:]}" for player in world.players if not player.outcome]
        must("V7", not left, f"still open: {left[:3]}")
        for player in world.players:
            player.validate(dice)
        trouble.cancel()
    return world.inputs, Counter(player.outcome for player in world.players)


async def _later(player: Player, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await player.play()


def _raise(world: LocalWorld, tasks: Sequence[asyncio.Task[None]]) -> None:
    if world.violation is not None:
        raise world.violation
    for task in tasks:
        if task.done():
            task.result()
