"""The handler of an arbiter: tries ways to settle a conflict among answers until one decides.

A role is asked by a delegation with a memo key, a person by a question with a fixed id, and the findings are in the
checkpoint: a later attempt at the task asks no one twice, and goes on with the way that the earlier one was at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

from archon.agent import Answer, Question, QuestionTerms, TaskContext
from archon.errors import ArchonError, Undecided
from archon.types.verdict import Verdict
from archon.wire import text_of
from archon_mesh.agent.agent import Agent
from archon_mesh.node.arbiter.conflict import (
    MAX_KEPT,
    Decided,
    Position,
    Progress,
    chosen,
    delegated_conflict,
    groups_of,
    positions_of,
)
from archon_mesh.node.arbiter.model import choose_by_model
from archon_mesh.node.arbiter.options import METHOD, MODEL, PERSON, REVIEWER, VERIFY, Arbitration
from archon_mesh.node.arbiter.requests import (
    NONE,
    check_of,
    check_request,
    choice_of,
    choice_request,
    method_request,
    person_request,
    redo_request,
    with_method,
)

QUESTION_ID: Final = "arbiter"
"""The id of the question to a person: one per task."""

AGREEMENT: Final = "agreement"
"""The way of a decision if no answers differ."""

_Way = Callable[[], Awaitable[Decided | str | Question]]


def arbiter_handler(
    agent: Agent | None = None, options: Arbitration | None = None
) -> Callable[[TaskContext], Awaitable[Answer | Question]]:
    """Returns a task handler that settles a conflict among the answers in the context of its task: for the `role` of a
    step with a decision. Its answer is the one that was chosen, with a Verdict in its metadata.

    The way `model` asks the model of `agent`, with its tools and hooks; without an agent it decides nothing. The
    handler raises Undecided, with the reasons of all ways, if none decides or there are fewer than two answers.
    """
    given = options or Arbitration()

    async def handle(task: TaskContext) -> Answer | Question:
        return await _Attempt(task, agent, given.for_run(task.metadata)).answer()

    return handle


class _Attempt:
    """One attempt at settling a conflict."""

    def __init__(self, task: TaskContext, agent: Agent | None, options: Arbitration) -> None:
        self._task = task
        self._agent = agent
        self._options = options
        self._question = text_of(task.proto.input[:1])
        answers = [(item.proto.step_id, item.role, item.text, item.parts) for item in task.context]
        if (delegated := delegated_conflict(task.parts)) is not None:
            self._question, answers = delegated
        self._positions = positions_of(answers, options.by)
        self._progress = Progress.from_bytes(task.checkpoint)
        self._ways: dict[str, _Way] = {
            METHOD: self._by_method,
            VERIFY: self._by_verifier,
            MODEL: self._by_model,
            REVIEWER: self._by_reviewer,
            PERSON: self._by_person,
        }

    async def answer(self) -> Answer | Question:
        """Returns the answer that counts, or the question to a person. Raises Undecided."""
        if len(self._positions) < 2:
            raise Undecided(f"undecided: there are {len(self._positions)} answers, and nothing to settle")
        self._positions = self._progress.applied(self._positions)
        decided = self._progress.decided or self._without_conflict()
        for way in self._options.ways:
            if decided is not None:
                break
            if way in self._progress.tried:
                continue
            made = await self._tried(way)
            if isinstance(made, Question):
                return made
            decided = made if isinstance(made, Decided) else None
        if decided is None:
            tried = "; ".join(f"{way}: {reason}" for way, reason in self._progress.tried.items())
            raise Undecided(f"undecided: {tried}"[: 2 * MAX_KEPT])
        return self._answer(decided, await self._redone(decided) if self._options.redo else {})

    def _without_conflict(self) -> Decided | None:
        if len(groups_of(self._positions)) > 1:
            return None
        first = self._positions[0]
        return Decided(AGREEMENT, first.step_id, first.now, "all answers say the same")

    async def _tried(self, way: str) -> Decided | Question | None:
        """Tries a way, and saves the findings."""
        try:
            made = await self._ways[way]()
        except ArchonError as error:
            made = _reason(error)
        if isinstance(made, Question):
            return made
        is_decided = isinstance(made, Decided)
        reason = made.reason if isinstance(made, Decided) else made
        self._task.think(f"{way}: {reason}\n")
        tried = self._progress.tried if is_decided else {**self._progress.tried, way: reason[:MAX_KEPT]}
        self._progress = replace(self._progress.after(self._positions), tried=tried)
        if isinstance(made, Decided):
            self._progress = replace(self._progress, decided=made)
        self._task.save(self._progress.to_bytes())
        return made if isinstance(made, Decided) else None

    async def _by_method(self) -> Decided | str:
        """Asks each role how it got its answer, and shows it the others. One that gave the same answer in several steps
        is asked once."""
        authors: dict[str, Position] = {}  # by step: the position whose role is asked about it
        for group in groups_of(self._positions):
            first_of_role: dict[str, Position] = {}
            for position in group:
                authors[position.step_id] = first_of_role.setdefault(position.role, position)
        asked = {author.step_id: author for author in authors.values()}
        requests = {
            step_id: method_request(self._question, each, self._others(each)) for step_id, each in asked.items()
        }
        replies = await self._asked(
            {step_id: self._ask(each.role, requests[step_id], METHOD, each) for step_id, each in asked.items()}
        )
        self._positions = [
            _with_reply(each, authors[each.step_id], replies[authors[each.step_id].step_id]) for each in self._positions
        ]
        groups = groups_of(self._positions)
        if len(groups) == 1:
            position = next((each for each in self._positions if not each.has_changed), self._positions[0])
            return Decided(METHOD, position.step_id, position.now, _agreed(self._positions))
        failed = [
            f"{asked[step_id].name}: {_reason(reply)}"
            for step_id, reply in replies.items()
            if isinstance(reply, ArchonError)
        ]
        return "; ".join([f"{len(groups)} answers still differ", *failed])

    async def _by_verifier(self) -> Decided | str:
        """Has a role check each of the different answers. The only one that passes is right."""
        role = self._options.verifier
        if not role:
            return "no verifier is set"
        groups = groups_of(self._positions)
        replies = await self._asked(
            {
                group[0].step_id: self._ask(
                    role, check_request(self._question, group[0], self._others(group[0])), VERIFY, group[0]
                )
                for group in groups
            }
        )
        found: dict[str, str] = {}
        passed: list[Position] = []
        for group in groups:
            reply = replies[group[0].step_id]
            if isinstance(reply, ArchonError):
                return f"{role} has not checked {group[0].name}: {_reason(reply)}"
            if (is_right := check_of(reply)) is None:
                return f"{role} says neither PASS nor FAIL about {group[0].name}"
            passed += group[:1] if is_right else []
            found |= {each.step_id: reply[:MAX_KEPT] for each in group}
        self._positions = [replace(each, check=found[each.step_id]) for each in self._positions]
        if len(passed) != 1:
            return f"{role} has passed {len(passed)} of {len(groups)} answers"
        return Decided(
            VERIFY, passed[0].step_id, passed[0].now, f"only {passed[0].name} has passed the check of {role}"
        )

    async def _by_model(self) -> Decided | str:
        if self._agent is None:
            return "the arbiter has no model"
        shown = [group[0] for group in groups_of(self._positions)]
        reply = await choose_by_model(self._task, self._agent, self._question, shown)
        return choice_of(MODEL, "the model", reply, shown)

    async def _by_reviewer(self) -> Decided | str:
        role = self._options.reviewer
        if not role:
            return "no reviewer is set"
        shown = [group[0] for group in groups_of(self._positions)]
        reply = await self._ask(role, choice_request(self._question, shown), REVIEWER)
        return choice_of(REVIEWER, role, reply, shown)

    async def _by_person(self) -> Decided | str | Question:
        """Ends the attempt with a question, or decides by the answer to it. Without an answer in time the default
        counts, if there is one."""
        given = self._task.answers.get(QUESTION_ID)
        if given is None:
            terms = QuestionTerms(
                approvers=tuple(self._options.approvers),
                timeout=self._options.person_seconds,
                on_timeout="default",
                default_answer=self._options.default or NONE,
            )
            text = person_request(self._question, self._positions)
            return Question(text, checkpoint=self._progress.to_bytes(), input_id=QUESTION_ID, terms=terms)
        text, whose = given.text.strip(), given.identity or "the default answer"
        if not text or text.casefold() == NONE:
            return f"{given.identity} says that none is right" if given.identity else "no person has answered in time"
        if (position := chosen(text, self._positions)) is not None:
            return Decided(PERSON, position.step_id, position.now, f"{whose} has chosen {position.name}")
        return Decided(PERSON, "", text, f"{whose} has given another answer")

    async def _redone(self, decided: Decided) -> dict[str, str]:
        """Asks the roles whose answers have lost to do their work again; returns their new answers, by step."""
        right = replace(self._positions[0], step_id="", said=decided.text, now=decided.text)
        losers = [each for each in self._positions if chosen(each.said, [right]) is None]
        winners = [each for each in self._positions if each.step_id == decided.winner]
        replies = await self._asked(
            {
                each.step_id: self._ask(each.role, redo_request(self._question, each, decided, winners), "redo", each)
                for each in losers
            }
        )
        return {
            step_id: reply if isinstance(reply, str) else f"(failed: {_reason(reply)})"
            for step_id, reply in replies.items()
        }

    def _answer(self, decided: Decided, redone: dict[str, str]) -> Answer:
        verdict = Verdict(decided.way, decided.winner, decided.reason, self._progress.tried, redone)
        winner = next((each for each in self._positions if each.step_id == decided.winner), None)
        if winner is not None and winner.parts and not winner.has_changed:
            return Answer(parts=winner.parts, metadata=verdict.metadata)
        return Answer(decided.text, metadata=verdict.metadata)

    def _others(self, position: Position) -> list[Position]:
        """The first of each group of answers that differ from one."""
        groups = groups_of(self._positions)
        return [group[0] for group in groups if all(each.step_id != position.step_id for each in group)]

    async def _ask(self, role: str, request: str, purpose: str, position: Position | None = None) -> str:
        memo_key = f"arbiter.{purpose}.{position.step_id}" if position is not None else f"arbiter.{purpose}"
        return (await self._task.delegate(request, role=role, memo_key=memo_key, timeout=self._options.seconds)).text

    async def _asked(self, asking: dict[str, Coroutine[Any, Any, str]]) -> dict[str, str | ArchonError]:
        """Asks several roles at once; returns their replies or errors."""
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(_caught(asked)) for key, asked in asking.items()}
        return {key: task.result() for key, task in tasks.items()}


async def _caught(asked: Coroutine[Any, Any, str]) -> str | ArchonError:
    try:
        return await asked
    except ArchonError as error:
        return error


def _with_reply(position: Position, author: Position, reply: str | ArchonError) -> Position:
    """Returns a position with its role's reply about `author`, a position that says the same."""
    if isinstance(reply, ArchonError):
        return position
    changed = with_method(author, reply)
    return replace(position, method=changed.method, now=changed.now if changed.has_changed else position.now)


def _agreed(positions: Sequence[Position]) -> str:
    changed = [each.name for each in positions if each.has_changed]
    return f"after they were asked for their methods, all say the same; {' and '.join(changed)} changed the answer"


def _reason(error: ArchonError) -> str:
    return f"{error.reason.lower().replace('_', ' ')}: {error.message}"
