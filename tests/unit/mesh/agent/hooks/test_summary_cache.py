"""A history that is loaded again is not summarised again."""

from __future__ import annotations

from archon_mesh.agent import Agent
from archon_mesh.agent.hooks.compaction import SUMMARY_PROMPT, ContextCompactionMiddleware
from archon_mesh.agent.hooks.summary_cache import SummaryCache
from archon_mesh.core.compaction import broken_pairing, is_summary, summary
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest, ScriptedModel


def talk(turns: int) -> list[ChatMessage]:
    return [
        message
        for number in range(turns)
        for message in (ChatMessage("user", f"Question {number} " + "z" * 200), ChatMessage("assistant", f"A{number}"))
    ]


def test_the_longest_known_beginning_is_replaced() -> None:
    cache = SummaryCache()
    cache.put(talk(2), summary("two"))
    cache.put(talk(4), summary("four"))
    messages, covered = cache.apply(talk(6))
    assert (covered, messages) == (8, [summary("four"), *talk(6)[8:]])
    assert cache.apply(talk(3)) == ([summary("two"), *talk(3)[4:]], 4)
    assert cache.apply(talk(1)) == (talk(1), 0)


def test_the_last_query_is_never_replaced() -> None:
    cache = SummaryCache()
    cache.put(talk(3), summary("all"))
    assert cache.apply(talk(3)) == (talk(3), 0)


def test_another_history_is_not_replaced() -> None:
    cache = SummaryCache()
    cache.put(talk(2), summary("two"))
    other = [ChatMessage("user", "Other"), *talk(6)[1:]]
    assert cache.apply(other) == (other, 0)


def test_the_cache_of_summaries_is_bounded() -> None:
    cache = SummaryCache(max_summaries=2)
    for turns in (1, 2, 3):
        cache.put(talk(turns), summary(str(turns)))
    assert cache.apply(talk(2)) == (talk(2), 0)
    assert cache.apply(talk(5))[1] == 6


async def test_each_part_of_a_growing_history_is_summarised_once() -> None:
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> str:
        requests.append(request)
        return "They talked." if request.messages[0].content.startswith(SUMMARY_PROMPT) else "Fine."

    agent = Agent("a", model=ScriptedModel(reply))
    agent.use(ContextCompactionMiddleware(1_600, threshold=0.7, compaction_strategy="summarisation"))
    for turns in range(30, 60):
        agent.history.replace_all(talk(turns))  # as it is loaded with each task of a stateful role
        await agent.run_async("And now?")
        assert broken_pairing(agent.history) == ""
        assert is_summary(agent.history[0])
        assert agent.history[-2].content == "And now?"
    summaries = [each for each in requests if each.messages[0].content.startswith(SUMMARY_PROMPT)]
    assert len(summaries) <= 4, "one for the beginning, and one for ten further turns"
