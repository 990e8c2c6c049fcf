"""Plans in processes that ask people and have budgets: rules, tools that ask, persons who approve, reject, modify, are
silent or the wrong ones, while the processes are killed, frozen and stopped."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from typing_extensions import override

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, PermissionDenied
from archon.failure_kinds import ErrorSeverity
from archon_mesh.core.people import Condition, Decision, InterceptionRule, Trigger
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import Task
from archon_mesh.people import ask_person
from archon_mesh.planning import PlanBudget, PlanQuestion, Spending
from archon_mesh.tools.result import ToolOutcome
from tests.simulation.check import must
from tests.simulation.faults import Dice
from tests.simulation.local import ATTEMPT, Died, LocalWorld, Player
from tests.simulation.people import STRANGER, random_rule, validate_answers

_CONDITIONS: Final = {
    Trigger.PLAN: Condition(),
    Trigger.REPLAN: Condition(),
    Trigger.CHECKPOINT: Condition(step="s1*"),
    Trigger.ERROR: Condition(severity_at_least=ErrorSeverity.LOW),
}


class Asking(Player):
    """One plan that asks people, and has a budget at times."""

    plans: ClassVar = (1, 2)

    def __init__(self, world: LocalWorld, number: int) -> None:
        super().__init__(world, number)
        random = world.dice.random
        self._rules: list[InterceptionRule] = [
            random_rule(random, trigger, condition)
            for trigger, condition in _CONDITIONS.items()
            if random.random() < 0.5
        ]
        calls = random.choice([None, None, None, random.randint(1, 12)])
        seconds = random.choice([None, None, None, None, random.uniform(0.5, 5.0)])
        self._budget = PlanBudget(max_model_calls=calls, max_seconds=seconds)
        self._asks = {work for work in range(8) if random.random() < 0.25}

    @override
    def options(self) -> dict[str, Any]:
        return {"rules": self._rules, "takes_answers": True, "budget": self._budget}

    # The worker ------------------------------------------------------------------------------------------------------

    @override
    async def call_tool(self, name: str, arguments: Mapping[str, Any], number: int, spending: Spending) -> ToolOutcome:
        await self._ask(arguments["work"])
        if self._may_act_again():
            self._acted[arguments["work"]] = 0
        return await super().call_tool(name, arguments, number, spending)

    def _may_act_again(self) -> bool:
        """Tells whether a person has approved another attempt at the step."""
        task_id, _ = ATTEMPT.get()
        approved = {each.input_id for each in self.disk.book.facts if isinstance(each, ev.InputGiven)}
        return any(
            isinstance(each, ev.ApprovalRequested)
            and each.task_id == task_id
            and each.failure is not None
            and each.input_id in approved
            for each in self.disk.book.facts
        )

    @override
    async def think(
        self,
        message: str,
        tools: Collection[str],
        number: int,
        spending: Spending,
        *,
        output: Mapping[str, Any] | None = None,
    ) -> str:
        await self._ask(message.splitlines()[0])
        return await super().think(message, tools, number, spending, output=output)

    async def _ask(self, work: str) -> None:
        if any(work.startswith(f"do {number} ") for number in self._asks):
            answer = await ask_person(f"how to {work}?")
            right = answer.text == f"answer to how to {work}?"
            self.world.must("V21", right, f"{self} got {answer.text!r} for {work!r}")

    # The person ------------------------------------------------------------------------------------------------------

    @override
    def order(self) -> None:
        if self.world.dice.random.random() < 0.5:
            super().order()
        else:
            self._answer()

    @override
    def resume(self) -> None:
        super().resume()
        self._answer()

    def _answer(self) -> None:
        executor, process = self.executor, self.process
        if executor is None or process is None or process.halted or self.outcome:
            return
        for question in executor.questions():
            if self.world.dice.calm or not self.world.dice.fault("person of a process silent", 0.3):
                process.context.run(self._respond, question)

    def _respond(self, question: PlanQuestion) -> None:
        dice, executor = self.world.dice, self.executor
        assert executor is not None
        decision, answer = None, f"answer to {question.text}"
        identity = question.approvers[-1] if question.approvers else ""
        if question.is_approval:
            decision = dice.random.choice([Decision.APPROVE] * 6 + [Decision.REJECT, Decision.MODIFY])
        given: Any = answer
        if decision is Decision.MODIFY and question.plan is not None:
            given = Task("given", "goal", "goal", self._steps(()))
            dice.fired["person of a process gave a plan"] += 1
        try:
            if question.approvers and dice.random.random() < 0.3:
                dice.fired["wrong person of a process answered"] += 1
                self._refused(question, given, decision)
            before = len(self.disk.book.facts)
            executor.respond(question.id, given, decision=decision, identity=identity)
            facts = self.disk.book.facts[before:]
            durable = any(isinstance(each, ev.InputGiven) and each.input_id == question.id for each in facts)
            self.world.must("V5", durable, f"an answer to {question.id} was accepted before it was durable")
            name = decision.name.lower() if decision else "answered"
            dice.fired[f"person of a process: {name}"] += 1
            if dice.random.random() < 0.2:
                dice.fired["person of a process answered twice"] += 1
                self._given_again(question, given, decision, identity)
        except (ArchonError, Died):
            return

    def _refused(self, question: PlanQuestion, given: Any, decision: Decision | None) -> None:
        assert self.executor is not None
        try:
            self.executor.respond(question.id, given, decision=decision, identity=STRANGER)
        except (PermissionDenied, FailedPrecondition, InvalidArgument):
            return
        self.world.must("V24", False, f"{STRANGER} answered {question.id}")

    def _given_again(self, question: PlanQuestion, given: Any, decision: Decision | None, identity: str) -> None:
        """The same answer again is no error; another one is."""
        assert self.executor is not None
        try:
            self.executor.respond(question.id, "another answer", decision=decision, identity=identity)
        except FailedPrecondition:
            return
        self.world.must("V21", False, f"{question.id} was answered twice")

    @override
    def validate(self, dice: Dice) -> None:
        super().validate(dice)
        book = self.disk.book
        validate_answers(book)
        for event in book.facts:
            if isinstance(event, ev.QuestionTimedOut):
                dice.fired[f"time-out in a process: {event.policy.name.lower()}"] += 1
        state, limit = book.state, self._budget.limits.calls
        # An attempt reserves a part of the budget before it begins, and reports its calls at its end: only the attempts
        # in progress may go beyond it, each by the calls of one step.
        must("V13", not limit or state.spent.calls <= limit + 5, f"{self} has spent {state.spent.calls} of {limit}")
        if state.failure is not None:
            dice.fired[f"plan of a process ended: {state.failure.reason}"] += 1
