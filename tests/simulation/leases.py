"""Leases of shared tools in virtual time: callers lease tools of owners and execute them, over a network that loses
answers, while owners die, freeze, drain and take tools back. Owners and callers are the SDK's code; processes, the network
and the registry are simulated. Holds lines 40 and 41 of docs/durability.md."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast

from archon.errors import ArchonError, DeadlineExceeded, Unavailable
from archon.registry import Tool
from archon.tools import SharedTool, SharedToolCall, SharedToolStatus
from archon.tools.caller.find import FoundTool
from archon.tools.caller.leased_tool import LeasedTool
from archon.tools.caller.peer import ANSWER_SECONDS, LEASE_CALL_SECONDS, REVOKE_SECONDS, ToolPeer
from archon.tools.owner import execution
from archon.tools.owner.tool_owner import ToolOwner
from archon.tools.result import SharedToolResult
from archon.types.task_ref import TaskRef
from tests.simulation.check import Violation, must
from tests.simulation.faults import Dice
from tests.simulation.loop import Process, VirtualLoop

ROLE: Final = "bank"
LOOK, PAY = "look", "pay"
"""A tool that may be executed twice, and one that may not."""

SCHEMA: Final = '{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}'
LEASE_LASTS: Final = 2.0
CALLERS: Final = 14

_CALL: ContextVar[tuple[str, str, str]] = ContextVar("simulated_call", default=("", "", ""))
"""Within an execution: its lease, the caller's invocation, and the key."""


@dataclass(slots=True)
class Act:
    """One time that a tool has acted."""

    tool: str
    owner: str
    invocation: str
    task_id: str
    key: str


@dataclass(slots=True)
class LeaseRecord:
    """A lease as an observer knows it: when it ends by itself, and when it was ended before, if it was."""

    ends: float
    ended: float | None = None


@dataclass
class Books:
    """Everything that happened in a course."""

    acts: list[Act] = field(default_factory=list)
    leases: dict[str, LeaseRecord] = field(default_factory=dict)
    results: dict[tuple[str, str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """The results that callers got, by owner, tool, task and key."""
    states: Counter[str] = field(default_factory=Counter)
    hops: int = 0


class Owner:
    """A process that lends two tools."""

    def __init__(self, course: LeaseCourse, number: int) -> None:
        self.name = f"owner-{number}"
        self.process = Process(self.name, course.loop)
        self.waiting: list[asyncio.Future[Any]] = []
        self._course = course
        self.tools = ToolOwner([self.shared(LOOK), self.shared(PAY)], clock=course.loop.time)

    def shared(self, name: str) -> SharedTool:
        """Returns one of the tools to share."""
        tool = Tool(name, "Acts.", SCHEMA, idempotent=name == LOOK)

        async def act(arguments: Mapping[str, Any], call: SharedToolCall) -> str:
            return await self._course.act(self, name, call)

        return SharedTool(tool, act, max_calls_per_minute=0, total_per_minute=0)

    def die(self) -> None:
        """Ends the process as SIGKILL does: callers that wait for it are cut off."""
        self.process.kill()
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            if not answer.done():
                answer.set_exception(Unavailable("the connection was reset"))


class SimPeer:
    """The connection of a caller to an owner, in place of a ToolPeer."""

    def __init__(self, course: LeaseCourse, owner: Owner, dice: Dice) -> None:
        self._course = course
        self._owner = owner
        self._dice = dice

    async def lease(self, tool: str, task: TaskRef | None, instance_id: str, seconds: float, timeout: float) -> str:
        async def serve() -> str:
            lease, _ = self._owner.tools.lease(tool, seconds, task, instance_id)
            self._course.books.leases[lease.lease_id] = LeaseRecord(self._course.loop.now + seconds)
            return lease.lease_id

        return cast(str, await self._call(serve, min(timeout, LEASE_CALL_SECONDS)))

    async def revoke(self, lease_id: str) -> None:
        async def serve() -> None:
            self._owner.tools.end_lease(lease_id)
            self._course.ended(lease_id)

        await self._call(serve, REVOKE_SECONDS)

    async def execute(
        self, lease_id: str, arguments_json: str, seconds: float, key: str, on_progress: object = None
    ) -> SharedToolResult:
        _, invocation, _ = _CALL.get()

        async def serve() -> SharedToolResult:
            _CALL.set((lease_id, invocation, key))
            async with aclosing(self._owner.tools.execute(lease_id, arguments_json, seconds, key)) as events:
                async for event in events:
                    if not isinstance(event, str):
                        return SharedToolResult.from_proto(event)
            raise AssertionError("an execution ended without a result")

        return cast(SharedToolResult, await self._call(serve, seconds + ANSWER_SECONDS))

    async def _call(self, serve: Callable[[], Awaitable[Any]], timeout: float) -> Any:
        course, owner, dice = self._course, self._owner, self._dice
        course.books.hops += 1
        await asyncio.sleep(dice.delay(0.02))
        if owner.process.dead:
            raise Unavailable("failed to connect to all addresses")
        answer: asyncio.Future[Any] = course.loop.create_future()

        async def served() -> None:
            error: ArchonError | None = None
            value: Any = None
            try:
                value = await serve()
            except ArchonError as raised:
                error = raised
            await asyncio.sleep(dice.delay(0.02))
            if error is None and dice.fault("answer of an owner lost", 0.03):
                error = Unavailable("the connection was reset")
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(value)

        work = owner.process.start(served())
        owner.waiting.append(answer)
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise
            raise DeadlineExceeded("no answer in time") from None
        finally:
            if answer in owner.waiting:
                owner.waiting.remove(answer)
            if not work.done():
                owner.process.later(0.0, work.cancel)


class SimMesh:
    """Finds owners for one caller, in place of a ToolClient."""

    def __init__(self, course: LeaseCourse, name: str) -> None:
        self.instance_id = name
        self._course = course
        self._dice = course.dice_of(f"network of {name}")

    async def find(self, *, name: str, role: str, fresh: bool, timeout: float) -> list[FoundTool]:
        """Returns the owners that the registry knows: dead ones, too, for a while."""
        await asyncio.sleep(self._dice.delay(0.01))
        return [
            FoundTool(tool, ROLE, owner.name, owner.name)
            for owner in self._course.registered
            for tool in owner.tools.advertised
            if tool.name == name
        ]

    def peer(self, owner: FoundTool) -> ToolPeer:
        found = next(each for each in self._course.owners if each.name == owner.address)
        return cast(ToolPeer, SimPeer(self._course, found, self._dice))

    async def trim(self) -> None:
        pass


class LeaseCourse:
    """Owners, callers and faults of one seed. Each of them draws from numbers of its own: an owner ends its executions in
    no order."""

    def __init__(self, seed: int, fired: Counter[str], faults_last: float) -> None:
        self.loop = cast(VirtualLoop, asyncio.get_running_loop())
        self.books = Books()
        self.owners: list[Owner] = []
        self.registered: list[Owner] = []
        self.violation: Violation | None = None
        self._seed = seed
        self._fired = fired
        self._faults_last = faults_last
        self._drawn: Counter[str] = Counter()

    def dice_of(self, name: str) -> Dice:
        """Returns the choices of a part of the course."""
        dice = Dice(0)
        dice.random = random.Random(f"{self._seed} {name}")
        dice.fired = self._fired
        dice.calm = self.loop.now >= self._faults_last
        return dice

    def ended(self, lease_id: str) -> None:
        """Notes that a lease was ended before its time."""
        if (record := self.books.leases.get(lease_id)) is not None and record.ended is None:
            record.ended = self.loop.now

    async def play(self) -> None:
        """Plays the course. Raises Violation."""
        for _ in range(3):
            self._add_owner()
        callers = [self._caller(f"caller-{number}") for number in range(CALLERS)]
        await asyncio.gather(*callers, self._trouble())
        if self.violation is not None:
            raise self.violation
        self._validate()

    def _add_owner(self) -> None:
        owner = Owner(self, len(self.owners))
        self.owners.append(owner)
        self.registered.append(owner)

    async def _trouble(self) -> None:
        dice = self.dice_of("trouble")
        while self.loop.now < self._faults_last:
            await asyncio.sleep(dice.random.uniform(0.1, 0.8))
            living = [owner for owner in self.registered if not owner.process.halted]
            if not living:
                continue
            owner = dice.random.choice(living)
            kind = dice.random.choice(("killed", "frozen", "tool", "lease", "lease", "drained"))
            if kind == "killed":
                self._fired["owner killed"] += 1
                owner.die()
                self.loop.call_later(dice.random.uniform(0.2, 1.5), self._replace, owner)
            elif kind == "frozen":
                self._fired["owner frozen"] += 1
                owner.process.halt()
                self.loop.call_later(dice.random.uniform(0.5, 5.0), self._thaw, owner)
            elif kind == "drained":
                self._fired["owner drained"] += 1
                owner.process.later(0.0, owner.tools.drain)
                self.loop.call_later(dice.random.uniform(0.2, 1.0), owner.die)
                self.loop.call_later(1.0, self._replace, owner)
            elif kind == "tool":
                owner.process.later(0.0, self._take_back, owner, dice.random.choice((LOOK, PAY)))
            else:
                owner.process.later(0.0, self._revoke_one, owner)

    def _replace(self, owner: Owner) -> None:
        if owner in self.registered:  # one that drains may be killed, too
            self.registered.remove(owner)
            self._add_owner()

    def _thaw(self, owner: Owner) -> None:
        if not owner.process.dead:
            owner.process.go_on()

    def _take_back(self, owner: Owner, name: str) -> None:
        self._fired["tool taken back"] += 1
        for lease in owner.tools.leases():
            if lease.tool_name == name:
                self.ended(lease.lease_id)
        owner.tools.revoke(name)
        owner.process.later(0.3, self._share_again, owner, name)

    def _share_again(self, owner: Owner, name: str) -> None:
        if all(tool.name != name for tool in owner.tools.advertised):
            owner.tools.share(owner.shared(name))

    def _revoke_one(self, owner: Owner) -> None:
        leases = owner.tools.leases()
        if leases:
            self._fired["lease revoked"] += 1
            self.ended(leases[0].lease_id)
            owner.tools.revoke_lease(leases[0].lease_id)

    def _check_lease(self, name: str, record: LeaseRecord) -> None:
        now = self.loop.now
        must("V40", now < record.ends, f"{name} began at {now:.3f}, its lease ended at {record.ends:.3f}")
        must("V40", record.ended is None, f"{name} began at {now:.3f}, its lease was ended before")

    async def act(self, owner: Owner, name: str, call: SharedToolCall) -> str:
        """Executes a tool. V40: only under a lease that is in force."""
        lease_id, invocation, key = _CALL.get()
        try:
            self._check_lease(f"{name} of {owner.name}", self.books.leases[lease_id])
        except Violation as violation:  # the owner would make a result of it
            self.violation = self.violation or violation
        task_id = call.task.task_id if call.task is not None else ""
        self.books.acts.append(Act(name, owner.name, invocation, task_id, key))
        value = f"{owner.name}/{len(self.books.acts)}"
        self._drawn[invocation] += 1
        dice = self.dice_of(f"act {invocation} {self._drawn[invocation]}")
        await asyncio.sleep(dice.delay(0.1, "slow work"))
        if dice.fault("tool failed", 0.05):
            raise RuntimeError("it broke")
        return value

    async def _caller(self, name: str) -> None:
        """Makes calls in the name of a task, some of them again with the same key."""
        dice, mesh, task = self.dice_of(name), SimMesh(self, name), TaskRef(name, "run-1", 1)
        tools = {
            tool: LeasedTool(mesh, tool, task=task, duration=LEASE_LASTS, clock=self.loop.time) for tool in (LOOK, PAY)
        }
        for number in range(dice.random.randint(10, 16)):
            tool, key = dice.random.choice((LOOK, PAY)), dice.random.choice(("", f"k{number}", f"k{number}"))
            for repeated in range(3):
                is_known = await self._call(tools[tool], f"{name}/{number}/{repeated}", number, key, dice)
                if not key or (is_known and dice.random.random() < 0.6):
                    break
                self._fired["call repeated with its key"] += 1
            await asyncio.sleep(dice.random.uniform(0.0, 1.2))
        for leased in tools.values():
            await leased.release()

    async def _call(self, leased: LeasedTool, invocation: str, number: int, key: str, dice: Dice) -> bool:
        _CALL.set(("", invocation, key))
        call = asyncio.ensure_future(
            leased.execute({"number": number}, timeout=dice.random.choice((1.0, 4.0)), idempotency_key=key)
        )
        if dice.fault("call cancelled", 0.04):
            await asyncio.wait([call], timeout=dice.random.uniform(0.0, 0.3))
            call.cancel()
        await asyncio.wait([call])
        if call.cancelled() or call.exception() is not None:
            error = None if call.cancelled() else call.exception()
            if error is not None and not isinstance(error, ArchonError):
                raise error
            self.books.states["FAILED" if isinstance(error, ArchonError) else "CANCELED"] += 1
            self._fired[f"call ended with {type(error).__name__}" if error else "call left"] += 1
            return False
        result = call.result()
        if result.status is not SharedToolStatus.SUCCESS:
            self.books.states["CANCELED"] += 1
            return False
        self.books.states["COMPLETED"] += 1
        value = str(result.content)
        if key:
            assert leased.task is not None
            self.books.results[value.partition("/")[0], leased.name, leased.task.task_id, key].add(value)
        return True

    def _validate(self) -> None:
        """V41: a call that may not act twice does not, and one key has one result at an owner."""
        of_invocation = Counter(act.invocation for act in self.books.acts if act.tool == PAY)
        for invocation, count in of_invocation.items():
            must("V41", count == 1, f"the call {invocation} acted {count} times")
        keyed = [act for act in self.books.acts if act.key]
        of_key = Counter((act.owner, act.tool, act.task_id, act.key) for act in keyed if act.tool == PAY)
        for name, count in of_key.items():
            must("V41", count == 1, f"{name} acted {count} times")
        for name, values in self.books.results.items():
            must("V41", name[1] == LOOK or len(values) == 1, f"{name} has the results {values}")
        made = {f"{act.owner}/{number}" for number, act in enumerate(self.books.acts, 1)}
        for values in self.books.results.values():
            must("V41", values <= made, f"no execution has made {values - made}")


async def lease_course(seed: int, fired: Counter[str], faults_last: float) -> tuple[int, Counter[str]]:
    """Plays leases of tools. Returns the calls between processes, and the outcomes of callers' calls."""
    timed: Any = execution
    real = timed.monotonic
    timed.monotonic = asyncio.get_running_loop().time
    try:
        course = LeaseCourse(seed, fired, faults_last)
        await course.play()
        return course.books.hops, course.books.states
    finally:
        timed.monotonic = real
