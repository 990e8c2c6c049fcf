"""Runs that make no progress, replies without an answer, goal checks, and a context window that is too small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon.failure_kinds import CONTEXT_OVERFLOW
from archon_mesh.agent import Agent, AgentState, ContextCompactionMiddleware, IterationLimit
from archon_mesh.agent.errors import ModelRefused, ReplyCut
from archon_mesh.agent.loop.notes import CUT, CUT_CALL, EMPTY_REPLY, GOAL_REACHED, LAST_STEP, REFUSED
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, Usage
from archon_mesh.llm.base import DECLINED, LENGTH
from archon_mesh.tools import tool

ASKED: list[str] = []


@tool
def look(where: str = "here") -> str:
    """Looks."""
    ASKED.append(where)
    return f"nothing {where}"


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    ASKED.clear()


def call(arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall("c", name, arguments)


def last(request: ModelRequest) -> str:
    return request.messages[-1].content


def declined() -> ModelReply:
    return ModelReply("I cannot help with that.", (), Usage(10, 10), "scripted", DECLINED)


def cut(text: str) -> ModelReply:
    return ModelReply(text, (), Usage(10, 10), "scripted", LENGTH)


class TestCutReplies:
    async def test_a_reply_that_is_cut_is_continued(self) -> None:
        model = ScriptedModel([cut("The steps: 1. Open, "), cut("2. look, "), "3. close."])
        assert await Agent("a", model=model).run_async("?") == "The steps: 1. Open, 2. look, 3. close."
        assert [message.content for message in model.requests[1].messages[-2:]] == ["The steps: 1. Open, ", CUT]

    async def test_a_reply_that_is_cut_again_and_again_fails_with_what_there_was(self) -> None:
        model = ScriptedModel([cut(f"part {number}, ") for number in range(9)])
        with pytest.raises(ReplyCut, match="cut at its length limit 4 times in a row") as ended:
            await Agent("a", model=model).run_async("?")
        assert ended.value.metadata["partial_answer"] == "part 0, part 1, part 2, part 3,"

    @pytest.mark.parametrize(("text", "iterations"), [("half", 1), (" ", 5)], ids=["last iteration", "thinking alone"])
    async def test_a_cut_reply_is_no_answer_if_it_cannot_be_continued(self, text: str, iterations: int) -> None:
        agent = Agent("a", model=ScriptedModel([cut(text)]), max_iterations=iterations)
        with pytest.raises(ReplyCut):
            await agent.run_async("?")

    async def test_a_call_that_is_cut_is_not_made(self) -> None:
        half = replace(cut("I look."), tool_calls=(ToolCall("2", "look", '{"place": "he"}'),))
        model = ScriptedModel([half, "nothing there"])
        looked: list[str] = []

        @tool
        def look(place: str) -> str:
            """Looks."""
            looked.append(place)
            return "nothing"

        assert await Agent("a", model=model, tools=[look]).run_async("?") == "nothing there"
        assert looked == []
        assert [message.content for message in model.requests[1].messages[-2:]] == ["I look.", CUT_CALL]

    async def test_the_calls_before_one_that_is_cut_are_made(self) -> None:
        calls = (ToolCall("1", "look", "{}"), ToolCall("2", "look", "{"))
        model = ScriptedModel([replace(cut(""), tool_calls=calls), "nothing there"])
        assert await Agent("a", model=model, tools=[look]).run_async("?") == "nothing there"
        asked, result, note = model.requests[1].messages[-3:]
        assert ([call.id for call in asked.tool_calls], result.tool_call_id) == (["1"], "1")
        assert note.content == CUT_CALL

    async def test_calls_that_are_cut_again_and_again_fail(self) -> None:
        half = replace(cut(""), tool_calls=(ToolCall("1", "look", "{"),))
        with pytest.raises(ReplyCut, match="tool calls were cut at its length limit 4 times in a row"):
            await Agent("a", model=ScriptedModel([half] * 9), tools=[look]).run_async("?")

    async def test_a_call_after_a_cut_reply_begins_another_answer(self) -> None:
        model = ScriptedModel([cut("I will lo"), call(), "nothing there"])
        assert await Agent("a", model=model, tools=[look]).run_async("?") == "nothing there"


class TestRepeatedCalls:
    async def test_the_fourth_same_call_in_a_row_is_refused(self) -> None:
        model = ScriptedModel([call()] * 4 + ["nothing there"])
        agent = Agent("a", model=model, tools=[look])
        assert await agent.run_async("?") == "nothing there"
        assert len(ASKED) == 3
        assert "look was called with these arguments 3 times in a row, with the same result" in last(model.requests[4])
        assert "call another tool" in last(model.requests[4])

    async def test_the_order_of_arguments_makes_no_other_call(self) -> None:
        @tool
        def add(a: int, b: int) -> int:
            """Adds."""
            ASKED.append("add")
            return a + b

        calls = [call('{"a": 1, "b": 2}', "add"), call('{"b": 2, "a": 1}', "add")] * 2
        await Agent("a", model=ScriptedModel([*calls, "3"]), tools=[add]).run_async("?")
        assert len(ASKED) == 3

    async def test_calls_with_other_results_are_made(self) -> None:
        @tool
        def tick() -> int:
            """Counts."""
            ASKED.append("tick")
            return len(ASKED)

        await Agent("a", model=ScriptedModel([call(name="tick")] * 6 + ["6"]), tools=[tick]).run_async("?")
        assert len(ASKED) == 6

    async def test_another_call_in_between_starts_the_count_anew(self) -> None:
        calls = [call(), call(), call('{"where": "there"}')] * 3
        await Agent("a", model=ScriptedModel([*calls, "done"]), tools=[look]).run_async("?")
        assert len(ASKED) == 9

    async def test_after_two_refusals_the_answer_is_asked_for(self) -> None:
        model = ScriptedModel([call()] * 5 + ["as far as I know: nothing"])
        agent = Agent("a", model=model, tools=[look])
        assert await agent.run_async("?") == "as far as I know: nothing"
        assert last(model.requests[5]) == LAST_STEP
        assert model.requests[5].tools == ()

    async def test_a_model_that_goes_on_ends_with_what_was_found(self) -> None:
        model = ScriptedModel([call()] * 15)
        with pytest.raises(IterationLimit, match="it kept repeating a tool call") as ended:
            await Agent("a", model=model, tools=[look]).run_async("?")
        assert len(model.requests) == 6
        assert "nothing here" in ended.value.partial_answer
        assert ended.value.kind == "model.reasoning_degradation"

    async def test_max_repeats_of_zero_refuses_no_call(self) -> None:
        agent = Agent("a", model=ScriptedModel([call()] * 8 + ["done"]), tools=[look], max_repeats=0)
        assert await agent.run_async("?") == "done"
        assert len(ASKED) == 8

    def test_a_negative_limit_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="max_repeats must be at least 0"):
            Agent("a", max_repeats=-1)


class TestRepliesWithoutAnAnswer:
    async def test_an_empty_reply_is_asked_for_again(self) -> None:
        model = ScriptedModel(["", "the answer"])
        agent = Agent("a", model=model)
        assert await agent.run_async("?") == "the answer"
        assert last(model.requests[1]) == EMPTY_REPLY
        assert [message.content for message in agent.history] == ["?", "the answer"]

    async def test_two_empty_replies_in_a_row_fail_the_run(self) -> None:
        model = ScriptedModel([call(), "", " ", "too late"])
        with pytest.raises(ModelRefused, match="the model replied nothing 2 times in a row") as ended:
            await Agent("a", model=model, tools=[look]).run_async("?")
        assert ended.value.kind == "model.refusal"
        assert ended.value.metadata["partial_answer"] == "nothing here"

    async def test_a_refusal_is_followed_by_a_smaller_request(self) -> None:
        model = ScriptedModel([declined(), "a part of it"])
        assert await Agent("a", model=model).run_async("?") == "a part of it"
        assert last(model.requests[1]) == REFUSED

    async def test_two_refusals_fail_the_run_with_their_text(self) -> None:
        with pytest.raises(ModelRefused, match="declined the task 2 times in a row") as ended:
            await Agent("a", model=ScriptedModel([declined()] * 2)).run_async("?")
        assert ended.value.metadata["partial_answer"] == "I cannot help with that."

    async def test_an_empty_last_reply_is_no_answer(self) -> None:
        with pytest.raises(IterationLimit):
            await Agent("a", model=ScriptedModel([""]), max_iterations=1).run_async("?")


class TestGoalCheck:
    async def test_a_reached_goal_ends_the_loop(self) -> None:
        def check(state: AgentState, answer: str | None) -> bool:
            return answer is not None or state.current_iteration == 2

        model = ScriptedModel([call('{"where": "1"}'), call('{"where": "2"}'), "found"])
        agent = Agent("a", model=model, tools=[look], goal_check=check)
        assert await agent.run_async("?") == "found"
        assert last(model.requests[2]) == GOAL_REACHED
        assert model.requests[2].tools == ()

    async def test_an_answer_that_misses_the_goal_goes_back_with_the_reason(self) -> None:
        async def check(state: AgentState, answer: str | None) -> bool | str:
            return answer == "42" or "a number is needed"

        model = ScriptedModel(["many", "42"])
        assert await Agent("a", model=model, goal_check=check).run_async("?") == "42"
        assert last(model.requests[1]) == "Your answer does not reach the goal yet: a number is needed"

    async def test_a_goal_that_is_never_reached_ends_at_the_limit(self) -> None:
        model = ScriptedModel(["many"] * 5)
        agent = Agent("a", model=model, goal_check=lambda state, answer: False, max_iterations=3)
        with pytest.raises(IterationLimit, match="no answer after 3 iterations") as ended:
            await agent.run_async("?")
        assert ended.value.partial_answer.endswith("many")


class TestContextOverflow:
    def overflowing(self, limit: int) -> tuple[ScriptedModel, list[int]]:
        """A model that calls a tool three times, and whose window has `limit` characters."""
        sizes: list[int] = []

        def reply(request: ModelRequest) -> Any:
            sizes.append(sum(len(message.content) for message in request.messages))
            if sizes[-1] > limit:
                return InvalidArgument("too many tokens", kind=CONTEXT_OVERFLOW)
            results = sum(message.role == "tool" for message in request.messages)
            return call(f'{{"where": "{len(sizes)}"}}', "read") if results < 3 and len(sizes) < 4 else "done"

        return ScriptedModel(reply), sizes

    def reader(self, model: ScriptedModel, **more: Any) -> Agent:
        @tool
        def read(where: str) -> str:
            """Reads."""
            return "x" * 10_000

        return Agent("a", model=model, tools=[read], **more)

    async def test_the_history_is_compacted_once(self) -> None:
        model, sizes = self.overflowing(25_000)
        assert await self.reader(model).run_async("the query") == "done"
        assert max(sizes[:-1]) > 25_000 > sizes[-1]
        assert model.requests[-1].messages[0].content == "the query"

    async def test_the_middleware_of_the_agent_compacts(self) -> None:
        model, _ = self.overflowing(25_000)
        compacted: list[int] = []

        def strategy(messages: Any, window: int) -> Any:
            compacted.append(len(messages))
            return messages[:1]

        middleware = ContextCompactionMiddleware(compaction_strategy=strategy, auto_compact=False)
        assert await self.reader(model, middlewares=[middleware]).run_async("the query") == "done"
        assert len(compacted) == 1

    async def test_a_second_overflow_fails_the_run(self) -> None:
        model, sizes = self.overflowing(5_000)
        with pytest.raises(InvalidArgument) as ended:
            await self.reader(model).run_async("the query")
        assert ended.value.kind == CONTEXT_OVERFLOW
        assert [size > 5_000 for size in sizes] == [False, True, False, True]

    async def test_a_query_that_is_too_long_fails_at_once(self) -> None:
        model, sizes = self.overflowing(100)
        with pytest.raises(InvalidArgument):
            await self.reader(model).run_async("x" * 1_000)
        assert len(sizes) == 1
