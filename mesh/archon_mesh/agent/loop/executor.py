"""The loop: call the model, run the tool calls of its reply concurrently, and repeat until an answer or a limit.

Everything else that happens in a run is done by hooks; the loop does not know which ones there are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from archon.errors import ArchonError, FieldViolation, OutputMismatch
from archon.failure_kinds import CONTEXT_OVERFLOW
from archon.output import read_json
from archon.telemetry import metrics
from archon_mesh.agent.errors import IterationLimit, ModelRefused, ReplyCut
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import maybe_await
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop.model_call import ModelCaller, ModelTurn
from archon_mesh.agent.loop.model_request import build_params
from archon_mesh.agent.loop.notes import (
    CORRECT_IT,
    CUT,
    CUT_CALL,
    EMPTY_REPLY,
    GOAL_NOT_REACHED,
    GOAL_REACHED,
    MISMATCH,
    REFUSED,
)
from archon_mesh.agent.loop.old_files import drop_old_files
from archon_mesh.agent.loop.overflow import compact_history
from archon_mesh.agent.loop.tool_calls import ToolCaller
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.agent.state.goal_check import Verdict
from archon_mesh.agent.state.running_agent import Phase
from archon_mesh.core.messages import ChatMessage, ToolCall

MAX_PARTIAL_ANSWER: Final = 16_000
"""Characters of the partial answer of an IterationLimit; the newest are kept."""

MAX_WITHOUT_CONTENT: Final = 1
"""How often in a row the model is asked again after a reply that has neither a call nor an answer."""

MAX_CUT: Final = 3
"""How often in a row the model may continue a reply that was cut at its length limit."""


MAX_REPAIRS: Final = 1
"""How often in a row the model is asked to correct an answer that does not match the agent's output, by one further
iteration if the last one is over."""


async def run_loop(
    state: AgentState, query: Sequence[ChatMessage], hooks: HookRunner, resume_from: Sequence[ChatMessage] = ()
) -> str:
    """Returns the final answer.

    `resume_from` are the messages that an earlier attempt at the same query produced; the tool calls of the last one
    are not executed yet, and the loop continues with them. A typed answer is returned as JSON. Raises IterationLimit,
    ModelRefused, OutputMismatch, the model's errors, and the errors of hooks that fail the run.
    """
    outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, state.agent, state))
    if outcome.decision is HookDecision.STOP:
        return str(outcome.value)
    state.history.extend([*query, *resume_from])
    drop_old_files(state.history)
    state.current_iteration = sum(message.role == "assistant" for message in resume_from)
    return await _Loop(state, hooks).run(resume_from[-1].tool_calls if resume_from else ())


class _Loop:
    """The iterations of one run."""

    def __init__(self, state: AgentState, hooks: HookRunner) -> None:
        self._state = state
        self._hooks = hooks
        self._tool_caller = ToolCaller(state, hooks)
        self._note = ""
        """Text for the next model call."""

        self._must_answer = False
        """Whether the next model call is the last one."""

        self._without_content = 0
        """Replies in a row that had neither a call nor an answer."""

        self._begun: list[str] = []
        """The parts of an answer that was cut so far."""

        self._cut_calls = 0
        """Replies in a row whose last tool call was cut."""

        self._repairs = 0
        """Answers in a row that did not match the output."""

        self._was_compacted = False

    async def run(self, open_calls: Sequence[ToolCall]) -> str:
        """Returns the final answer. `open_calls` are executed first."""
        state = self._state
        if open_calls and (answer := await self._act(open_calls, resumed=True)) is not None:
            return answer
        for iteration in range(state.current_iteration + 1, state.max_iterations + 1 + MAX_REPAIRS):
            if iteration > state.max_iterations and not self._repairs:
                break
            await wait_until_resumed(state)
            state.current_iteration = iteration
            is_last = self._must_answer or iteration >= state.max_iterations
            began = time.monotonic()
            try:
                answer, is_over = await self._iterate(is_last=is_last)
            finally:
                if (recorder := metrics.recorder()) is not None:
                    recorder.record(metrics.CYCLE_DURATION, time.monotonic() - began, (state.agent_name,))
            if answer is not None:
                return answer
            if is_over and not self._repairs:
                break
        raise self._no_answer()

    async def _iterate(self, *, is_last: bool) -> tuple[str | None, bool]:
        """Runs one iteration. Returns the answer, or None, and whether there is none to be expected any more."""
        state = self._state
        state.phase = Phase.THINKING
        turn = await self._think(is_last=is_last)
        if turn.retry:
            return None, False
        message = turn.message
        if turn.final:
            state.history.append(message)
            return message.content, True
        if message.tool_calls and is_last:
            return None, True
        if message.tool_calls and turn.cut:
            message = self._without_cut_call(message)
            if not message.tool_calls:
                return None, False
        if message.tool_calls:
            state.history.append(message)
            self._cut_calls = self._cut_calls if turn.cut else 0
            return await self._act(message.tool_calls), is_last
        return await self._consider(turn, is_last=is_last), is_last

    async def _think(self, *, is_last: bool) -> ModelTurn:
        """Calls the model; once more with a shorter history, once in a run, if the context window was too small."""
        state = self._state
        params = build_params(state, is_last=is_last, note=self._note)
        try:
            turn = await ModelCaller(state, self._hooks).call(params)
        except ArchonError as error:
            if error.kind != CONTEXT_OVERFLOW or self._was_compacted:
                raise
            self._was_compacted = True
            if not await compact_history(state):
                raise
            params = build_params(state, is_last=is_last, note=self._note)
            turn = await ModelCaller(state, self._hooks).call(params)
        if not turn.retry:
            self._note = ""
        return turn

    async def _act(self, calls: Sequence[ToolCall], *, resumed: bool = False) -> str | None:
        """Executes the calls. Returns the answer if they end the run."""
        state = self._state
        self._without_content, self._begun = 0, []
        state.phase = Phase.ACTING
        await wait_until_resumed(state)
        text = await self._tool_caller.run(calls, resumed=resumed)
        state.phase = Phase.OBSERVING
        if text is not None:
            return await self._offer(ChatMessage("assistant", text))
        if self._tool_caller.repeated.exhausted:
            self._must_answer = True
        elif state.agent.goal_check is not None and await is_goal_reached(state, None) is True:
            self._must_answer, self._note = True, GOAL_REACHED
        return None

    async def _consider(self, turn: ModelTurn, *, is_last: bool) -> str | None:
        """Returns the answer of a reply without calls; None if the model has to go on or to try again. Raises
        ModelRefused if it had to, and has again no answer, and ReplyCut if its replies are cut again and again."""
        message = turn.message
        if turn.cut:
            self._go_on(message, is_last=is_last)
            return None
        if self._begun:
            message, self._begun = self._joined(message), []
        is_empty = not message.content.strip()
        if not is_empty and not turn.refused:
            self._without_content = 0
            return await self._offer(message)
        self._without_content += 1
        if self._without_content > MAX_WITHOUT_CONTENT:
            raise ModelRefused(
                f"{self._state.agent_name}: the model {'declined the task' if turn.refused else 'replied nothing'} "
                f"{self._without_content} times in a row",
                metadata=self._found(message.content),
            )
        if not is_empty:
            self._state.history.append(message)
        self._note = REFUSED if turn.refused else EMPTY_REPLY
        return None

    def _joined(self, message: ChatMessage) -> ChatMessage:
        """Returns the end of an answer that was cut, with its beginning; a typed one alone if it was begun anew."""
        whole, output = replace(message, content="".join([*self._begun, message.content])), self._state.output
        is_new = output is not None and not _is_json(whole.content) and output.fits(message.content)
        return message if is_new else whole

    def _without_cut_call(self, message: ChatMessage) -> ChatMessage:
        """Returns a reply that was cut without its last call, which may not be whole: a part of its arguments may be
        valid, and mean something else. Raises ReplyCut if the model's calls are cut again and again."""
        self._cut_calls += 1
        if self._cut_calls > MAX_CUT:
            raise ReplyCut(
                f"{self._state.agent_name}: the model's tool calls were cut at its length limit "
                f"{self._cut_calls} times in a row; a higher max_tokens lets them end",
                metadata=self._found(message.content),
            )
        self._note = CUT_CALL
        message = replace(message, tool_calls=message.tool_calls[:-1])
        if not message.tool_calls and message.content.strip():
            self._state.history.append(message)
        return message

    def _go_on(self, message: ChatMessage, *, is_last: bool) -> None:
        """Has the model continue a reply that was cut. Raises ReplyCut if it may not reply again."""
        self._begun.append(message.content)
        if is_last or len(self._begun) > MAX_CUT or not message.content.strip():
            raise ReplyCut(
                f"{self._state.agent_name}: the model's reply was cut at its length limit "
                f"{len(self._begun)} times in a row; a higher max_tokens lets it end",
                metadata=self._found("".join(self._begun)),
            )
        self._state.history.append(message)
        self._note = CUT

    async def _offer(self, message: ChatMessage) -> str | None:
        """Returns the answer that hooks and the goal check accept, or None if the model goes on. Both enter the
        history."""
        state = self._state
        if state.output is not None:
            try:
                message = replace(message, content=state.output.read(message.content))
            except OutputMismatch as mismatch:
                self._repair(message, mismatch)
                return None
        self._repairs = 0
        accepted = await accepted_answer(state, self._hooks, message)
        state.history.append(message if accepted is None else accepted)
        if accepted is None:
            return None
        verdict = await is_goal_reached(state, accepted.content)
        if verdict is True:
            return accepted.content
        self._note = f"{GOAL_NOT_REACHED}: {verdict}" if verdict else f"{GOAL_NOT_REACHED}."
        return None

    def _repair(self, message: ChatMessage, mismatch: OutputMismatch) -> None:
        """Has the model correct an answer. Raises OutputMismatch if it had to already."""
        self._state.history.append(message)
        if self._repairs >= MAX_REPAIRS:
            raise OutputMismatch.of(mismatch.field_violations, mismatch.text, self._state.agent_name)
        self._repairs += 1
        self._note = repair_note(mismatch.field_violations)

    def _found(self, text: str = "") -> dict[str, str]:
        """Metadata of an error that ends the run: the text, or else the agent's findings so far."""
        return {"partial_answer": (text.strip() or _partial_answer(self._state.history))[-MAX_PARTIAL_ANSWER:]}

    def _no_answer(self) -> IterationLimit:
        state, metadata = self._state, self._found()
        if self._tool_caller.repeated.exhausted:
            return IterationLimit(f"{state.agent_name} has no answer: it kept repeating a tool call", metadata=metadata)
        return IterationLimit(
            f"{state.agent_name} has no answer after {state.current_iteration} iterations", metadata=metadata
        )


def repair_note(violations: Sequence[FieldViolation]) -> str:
    """Returns a message that tells a model how its answer does not match."""
    lines = [f"- {violation.field}: {violation.description}" for violation in violations]
    return "\n".join([f"{MISMATCH}:", *lines, CORRECT_IT])


async def wait_until_resumed(state: AgentState) -> None:
    """Returns when neither this agent nor any agent that called it is paused."""
    while any(ancestor.agent.paused for ancestor in state.lineage()):
        for ancestor in state.lineage():
            await ancestor.agent.wait_until_resumed()


async def is_goal_reached(state: AgentState, answer: str | None) -> Verdict:
    """Returns the verdict of the goal check on an answer, or of the state without one; True if there is no check."""
    check = state.agent.goal_check
    return True if check is None else cast(Verdict, await maybe_await(check(state, answer)))


async def accepted_answer(state: AgentState, hooks: HookRunner, message: ChatMessage) -> ChatMessage | None:
    """Returns the answer as the hooks before a final response leave it, or None if they want another one."""
    if HookEvent.BEFORE_FINAL_RESPONSE not in hooks:
        return message
    outcome = await hooks.run(
        HookContext(HookEvent.BEFORE_FINAL_RESPONSE, state.agent, state, message=message, value=message.content)
    )
    if outcome.decision is HookDecision.RETRY:
        return None
    if isinstance(outcome.value, ChatMessage):
        return replace(outcome.value, tool_calls=())
    return message if outcome.value is None else replace(message, content=outcome.value, tool_calls=())


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def _partial_answer(history: Sequence[ChatMessage]) -> str:
    """Returns the last ten texts of the model and its tools."""
    texts = [message.content for message in history if message.role in ("assistant", "tool") and message.content]
    return "\n\n".join(texts[-10:])
