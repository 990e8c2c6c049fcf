"""Random courses of runs as text: each input, and the events that the engine decides; at the end the state.

`python -m tests.unit.mesh.engine.courses` writes the recorded ones anew, after a change that is meant to decide
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final

from archon_mesh.core.people import (
    Condition,
    Decision,
    InterceptionRule,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine import RunState
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import SubTask, SubTaskStatus
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import (
    DRAINING,
    RESULT_REFUSED,
    Amount,
    Budget,
    Edge,
    Failure,
    Item,
    PlanTarget,
    SessionContextRef,
    Submission,
    Target,
    TaskState,
    quantize,
)
from tests.unit.mesh.engine.checked_step import checked_step

RECORDED: Final = Path(__file__).parent / "recorded"
SEEDS: Final = (
    1, 46, 119, 125, 155, 207, 280, 298, 307, 310, 339, 346, 359, 374, 458, 519, 524, 530, 544, 595, 632, 650, 678, 681, 683
)  # fmt: skip
"""Of 700 these take nearly every branch of the engine that any of them takes."""

INPUTS: Final = 90

T0 = 1_000.0
GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")
FAILURES = (
    Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "cannot"),
    Failure("UNAVAILABLE", "UNAVAILABLE", "later"),
    Failure("UNAVAILABLE", "UNAVAILABLE", "later", retry_delay=0.1),
    Failure("UNAVAILABLE", "UNAVAILABLE", "later"),
    Failure("FAILED_PRECONDITION", RESULT_REFUSED, "empty", retry=2, violations=(("result", "it is empty"),)),
    Failure("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "late"),
)
REFUSALS = (
    Failure("RESOURCE_EXHAUSTED", "NO_CAPACITY", "full"),
    Failure("UNAVAILABLE", DRAINING, "stopping"),
    Failure("ABORTED", "STALE_EPOCH", "stale"),
)
TARGETS = (
    PlanTarget("writer", "Writes texts.", False, ("writing",), (), 2.0, 30),
    PlanTarget("booker", "Books hotels.", False, ("booking",), ("book",)),
)


_STATES: Final = (
    *[TaskState.COMPLETED] * 14,
    *[TaskState.FAILED] * 3,
    *[TaskState.INPUT_REQUIRED] * 2,
    TaskState.CANCELED,
    TaskState.REJECTED,
)


class Course:
    """One run with random agents, callers and people. The same seed makes the same choices."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.state = RunState()
        self.now = T0
        self._names = 0

    def lines(self) -> Iterator[str]:
        """Yields the inputs with their events, and then the state."""
        yield from self._feed(inp.Submit(self._submission(), "o1", 1, self._reused()))
        for _ in range(INPUTS):
            self.now = quantize(self.now + self.random.choice((0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 3.0)))
            if self.state.ended and self.random.random() < 0.7:
                break
            given = self.random.choices(_MOVES, _WEIGHTS)[0](self)
            if given is not None:
                yield from self._feed(given)
        yield ""
        yield from _brief_lines(self.state)

    def _feed(self, given: inp.Input) -> Iterator[str]:
        yield f"{self.now:g} {brief(given)}"
        for event in checked_step(self.state, given, self.now):
            yield f"    {brief(event)}"

    # The run

    def _submission(self) -> Submission:
        pick, has_plan = self.random.choice, self.random.random() < 0.6
        budget = pick((Budget(), Budget(), Budget(2_000, 90_000, 2), Budget(tokens=300)))
        rules = tuple(rule for rule in self._rules() if self.random.random() < 0.3)
        if has_plan:
            return Submission(
                "r", "acme", "q", pick(("", "s")), "plan", ("planner",), (), 200.0, None, targets=TARGETS, budget=budget,
                pause_timeout=pick((0.0, 20.0)), rules=rules,
            )  # fmt: skip
        edges = tuple(Edge(a, b, pick((1, 2, 3))) for a, b in ("ab", "ac", "bc") if self.random.random() < 0.6)
        return Submission(
            "r", "acme", "q", "s", "pipeline", ("a", "b", "c"), edges, 100.0, None, (), pick(((), ("c",))),
            (Target("d", "does", True), Target("a")), budget, pick(((), (SessionContextRef("a", 3, ("b",)),))),
            pick((0.0, 20.0)), rules=rules,
        )  # fmt: skip

    def _reused(self) -> tuple[inp.ReusedAnswer, ...]:
        return (inp.ReusedAnswer("a", "reused", True, (Item(2, "item"),)),) if self.random.random() < 0.1 else ()

    def _rules(self) -> Iterator[InterceptionRule]:
        yield InterceptionRule(Trigger.PLAN, name="plans", approvers=("ann", "bob"), on_timeout=TimeoutPolicy.ESCALATE)
        yield InterceptionRule(Trigger.REPLAN, timeout=9.0, on_timeout=TimeoutPolicy.DEFAULT, default="approve")
        yield InterceptionRule(Trigger.CHECKPOINT, Condition(step="s1"), timeout=9.0)
        yield InterceptionRule(Trigger.ERROR, Condition(severity_at_least=2), priority=2, timeout=0.0)
        yield InterceptionRule(Trigger.CONFIDENCE, Condition(confidence_below=0.6, cost_above=0.00001), priority=1)

    # What happens to it

    def _live(self) -> Task | None:
        live = self.state.live_tasks()
        return self.random.choice(live) if live else None

    def _any(self) -> Task | None:
        return self.random.choice(list(self.state.tasks.values())) if self.state.tasks else None

    def _spent(self) -> Amount:
        return Amount(self.random.choice((0, 3, 40)), self.random.choice((0, 700)))

    def slot(self) -> inp.Input | None:
        ready = [task for task in self.state.tasks.values() if self.state.ready(task)]
        if not ready:
            return None
        task = self.random.choice(ready)
        if task.step_id and self.random.random() < 0.05:
            return inp.InputMissing(task.task_id, task.attempt + 1, FAILURES[0])
        self.now = max(self.now, task.not_before) if self.random.random() < 0.9 else self.now
        version = self.random.choice((None, None, 4))
        return inp.SlotFound(task.task_id, f"i{self.random.randint(1, 3)}", version)

    def result(self) -> inp.Input | None:
        task = self._live() if self.random.random() < 0.95 else self._any()
        if task is None:
            return None
        pick = self.random.choice
        key = task.task_id, max(1, task.attempt), pick(_STATES)  # fmt: skip
        failure = pick(FAILURES) if key[2] in (TaskState.FAILED, TaskState.REJECTED) else None
        plan = self.state.plan
        if plan is not None and task.task_id == plan.planner and key[2] is TaskState.COMPLETED:
            return self._reply(task)
        common = dict[str, Any](
            failure=failure, publish=pick((True, True, False)), records=pick((0, 0, 2)), spent=self._spent(),
            input_id=pick(("q", "q2", "")) if key[2] is TaskState.INPUT_REQUIRED else "",
            checkpointed=pick((True, False)), has_turn=pick((True, False)),
            read_version=pick((0, 0, 4, 3)), turn_too_large=self.random.random() < 0.05,
            version_conflict=self.random.random() < 0.1, items=pick(((), (), (Item(2, "item"),))),
        )  # fmt: skip
        if key[2] is TaskState.INPUT_REQUIRED and pick((True, False)):
            terms = QuestionTerms("", pick(((), ("ann",))), pick((0.0, 6.0)), pick((1, 2, 3)), "approve")
            return inp.QuestionIn(
                *key, "result", **common, kind=pick((QuestionKind.INPUT, QuestionKind.APPROVAL)), terms=terms
            )
        return inp.ResultIn(*key, "result", **common)

    def _steps(self) -> tuple[SubTask, ...]:
        pick, steps = self.random.choice, list[SubTask]()
        for number in range(self.random.randint(1, 4)):
            earlier = [step.id for step in steps]
            needs = tuple(self.random.sample(earlier, min(len(earlier), self.random.randint(0, 2))))
            kind = pick(("role", "role", "role", "tool", "capability", "none", "role", "wrong"))
            steps.append(
                SubTask(
                    pick((f"s{number}", f"s{number}", f"t{number}")),
                    pick(("Write it.", "Book it.", "Do it.")),
                    dependencies=needs if pick((True,) * 9 + (False,)) else (*needs, "nowhere"),
                    role=pick(("writer", "booker")) if kind == "role" else "gone" if kind == "wrong" else "",
                    tool_name="book" if kind == "tool" else "",
                    capability="writing" if kind == "capability" else "",
                    critical=self.random.random() < 0.2,
                    partial_input=self.random.random() < 0.2,
                    expand=self.random.random() < 0.15,
                    expand_on_failure=self.random.random() < 0.15,
                    confidence=pick((1.0, 1.0, 1.0, 0.5, 0.1)),
                    checkpoint=self.random.random() < 0.2,
                    estimated_cost_micro_usd=pick((0, 50)),
                )
            )
        return tuple(steps)

    def _plan(self) -> Plan:
        return Plan("", "do it", self.random.choice(("do it", "do it", "bake bread")), self._steps())

    def _reply(self, task: Task) -> inp.PlanIn:
        form = self.random.random()
        plan = self._plan() if form < 0.9 else None
        faults = (("s1", "it is wrong"),) if 0.85 < form < 0.95 else ()
        key = task.task_id, task.attempt, TaskState.COMPLETED
        return inp.PlanIn(*key, "reply", spent=self._spent(), plan=plan, faults=faults, changes=("a repair",) if form < 0.2 else ())  # fmt: skip

    def delegate(self) -> inp.Input | None:
        if (task := self._live()) is None:
            return None
        pick = self.random.choice
        self._names += 1
        roles = pick((("d", ()), ("a", ()), ("d", ("e",)), ("e", ()), ("", ())))
        return inp.DelegateIn(
            task.task_id, task.attempt, pick((f"d{self._names}", "d1")), task.applied + 1, roles[0],
            self.random.random() < 0.9, pick(("one", "two")), "input", pick(("", "able")), pick(("", "", "key")),
            pick((-1.0, 5.0, 60.0)), pick((Budget(), Budget(tokens=60), Budget(0, 900, 1), Budget(cost=-5))),
            pick((True, False)), pick((0, 1)), roles[1],
        )  # fmt: skip

    def frame(self) -> inp.Input | None:
        if (task := self._live()) is None:
            return None
        pick, key, sequence = self.random.choice, (task.task_id, task.attempt), task.applied + self.random.randint(0, 2)
        self._names += 1
        terms = QuestionTerms("", (), pick((0.0, 6.0)), pick((1, 2)), "a default")
        given: tuple[inp.Input, ...] = (
            inp.CheckpointIn(*key, sequence, pick((0, 1)), "checkpoint"),
            inp.PublishIn(*key, sequence, Item(pick((1, 2, 3)), f"item {self._names}"), pick((0, 1))),
            inp.AskIn(*key, sequence, pick(("live", "live", "live", "")), "asked", 1, QuestionKind.INPUT, terms),
            inp.RecordsIn(*key, pick((0, 2)), sequence),
            inp.BudgetRequestIn(*key, f"b{pick((1, self._names))}", sequence, Amount(pick((5, 500)), pick((0, 100)))),
            inp.UsageIn(*key, Amount(pick((5, 5, 70, 3_000)), pick((0, 100)))),
            inp.WorkingIn(*key),
        )
        if task.delegations:
            given = (*given, inp.CancelDelegationIn(*key, pick([*task.delegations, "no such"]), sequence))
        return pick(given)

    def trouble(self) -> inp.Input | None:
        if (task := self._live()) is None:
            return None
        key = task.task_id, task.attempt
        if self.random.random() < 0.5:
            return inp.LostIn(*key, GONE, on_purpose=self.random.random() < 0.3)
        return inp.RejectIn(*key, self.random.choice(REFUSALS), self.random.choice((0.0, 0.0, 0.75)))

    def stored(self) -> inp.Input | None:
        seqs = list(self.state.answer_tasks.items())
        if not seqs:
            return None
        seq, task_id = self.random.choice(seqs)
        return inp.PublishedIn(task_id, seq, self.random.randint(1, 4))

    def person(self) -> inp.Input | None:
        asking = [task.question for task in self.state.tasks.values() if task.question]
        if not asking:
            return None
        pick = self.random.choice
        decision = pick((Decision.UNSPECIFIED, Decision.APPROVE, Decision.APPROVE, Decision.REJECT, Decision.MODIFY))
        plan = self._plan() if decision is Decision.MODIFY and pick((True, False)) else None
        return inp.Respond(pick(asking), pick(("ann", "ann", "eve")), pick(("", "q9")), "00", "answer", decision, plan, "instead")  # fmt: skip

    def command(self) -> inp.Input | None:
        number, plan = self.random.random(), self.state.plan
        if number < 0.02:
            return inp.Cancel("me", self.random.choice(("", "enough")))
        if number < 0.03:
            return inp.JournalFull(9_999, 9_000)
        if number < 0.3:
            return inp.Claim(f"o{self.random.randint(1, 3)}", self.state.epoch + self.random.randint(0, 1))
        if number < 0.6 and plan is not None:
            self._names += 1
            return inp.EditPlan("me", f"e{self._names}", plan.seq - self.random.choice((0, 0, 1)), self._edited())
        return inp.Pause("me") if number < 0.75 else inp.Resume("me")

    def _edited(self) -> Plan:
        """The plan with further steps, and at times without one."""
        plan = self.state.plan
        assert plan is not None
        steps = [step for step in plan.steps.values() if self.random.random() < 0.8]
        more = [step for step in self._steps() if step.id not in plan.steps]
        return Plan("", "do it", plan.goal, tuple(step.with_status(SubTaskStatus.PENDING) for step in (*steps, *more)))

    def tick(self) -> inp.Input | None:
        if self.random.random() < 0.1:
            self.now = quantize(self.now + 20.0)
        return inp.Tick()


_Move = Callable[[Course], inp.Input | None]
_MOVES: Final[tuple[_Move, ...]] = (
    Course.slot,
    Course.result,
    Course.delegate,
    Course.frame,
    Course.trouble,
    Course.stored,
    Course.person,
    Course.command,
    Course.tick,
)
_WEIGHTS: Final = (34, 22, 5, 10, 4, 4, 12, 3, 5)


def brief(value: object) -> str:
    """An object with the fields that differ from their defaults."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return "{" + ", ".join(f"{brief(key)}: {brief(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(brief, value)) + "]"
    if isinstance(value, frozenset):
        return brief(sorted(value))
    if not is_dataclass(value):
        return f"{value:g}" if isinstance(value, float) else str(value).replace("\n", " | ")
    return f"{type(value).__name__}({', '.join(_changed(value))})"


def _changed(value: Any) -> Iterator[str]:
    for field in fields(value):
        held = getattr(value, field.name)
        if held != field.default and held not in ((), [], {}, "", frozenset()):
            yield f"{field.name}={brief(held)}"


def _brief_lines(state: RunState) -> Iterator[str]:
    for field in _changed(state):
        if not field.startswith(("submission", "tasks")):
            yield field
    for task in state.tasks.values():
        yield brief(task)


def text_of(seed: int) -> str:
    """The course of a seed as text."""
    return "\n".join(Course(seed).lines()) + "\n"


if __name__ == "__main__":
    RECORDED.mkdir(exist_ok=True)
    for old in RECORDED.glob("*.txt"):
        old.unlink()
    for each in SEEDS:
        (RECORDED / f"{each}.txt").write_text(text_of(each))
