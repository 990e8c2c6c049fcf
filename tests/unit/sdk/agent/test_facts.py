"""Facts: established once, confirmed by values that agree, contradicted by others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from archon.agent import Answer, Contradiction, Delegated, Facts, SharedContext
from archon.agent.facts import ARBITER_KEY, MAX_CONTRADICTIONS, MAX_FACT_BYTES, _object_of
from archon.agent.local_values import LocalValues
from archon.errors import InvalidArgument, ResourceExhausted, TooManyMessages, UnknownRole
from archon.types import InformationShare, Part, Verdict


@dataclass
class StubTask:
    """The part of a TaskContext that facts use."""

    task_id: str
    role: str = "researcher"
    reply: Delegated | Exception | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    sent: dict[str, InformationShare] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refuses: bool = False

    def remaining(self) -> float | None:
        return None

    async def send(self, content: object, *, message_id: str) -> str:
        assert isinstance(content, InformationShare)
        if self.refuses:
            raise TooManyMessages("full")
        self.sent[message_id] = content
        return message_id

    async def delegate(self, input: Sequence[Part], *, role: str, memo_key: str, timeout: float) -> Delegated:
        self.asked.append((role, input[0].text or ""))
        if isinstance(self.reply, Exception):
            raise self.reply
        assert self.reply is not None
        return self.reply


async def silent(share: InformationShare, message_id: str) -> None:
    raise AssertionError("facts announce nothing")


def facts_of(values: LocalValues, task: StubTask) -> Facts:
    return Facts(task, SharedContext(values, silent))


async def test_the_first_value_establishes_and_agreeing_ones_confirm() -> None:
    values = LocalValues()
    first = await facts_of(values, StubTask("1", "archivist")).establish("Bridge length", "100 m")
    assert (first.outcome, first.fact.role, first.fact.confirmed_by) == ("established", "archivist", ())
    second = await facts_of(values, StubTask("2")).establish("bridge_length", " 104 m. ")
    assert (second.outcome, second.fact.value, second.fact.confirmed_by) == ("confirmed", "100 m", ("2",))
    third = await facts_of(values, StubTask("3")).establish("Bridge length", "100 m")
    assert third.fact.confirmed_by == ("2", "3")
    assert not third.fact.is_contested


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        (100, 105, "confirmed"),
        (100, 106, "contradicted"),
        (100, "100", "confirmed"),
        ("Red", '"red."', "confirmed"),
        ("red", "blue", "contradicted"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "confirmed"),
        ([1, 2], [2, 1], "contradicted"),
        (True, "true", "confirmed"),
        (None, "null", "confirmed"),
        ("100 m", "100 km", "contradicted"),
    ],
)
async def test_values_agree_by_the_rule_of_votes(one: Any, other: Any, outcome: str) -> None:
    values = LocalValues()
    await facts_of(values, StubTask("1")).establish("x", one)
    assert (await facts_of(values, StubTask("2")).establish("x", other)).outcome == outcome


async def test_a_later_attempt_of_a_task_counts_once() -> None:
    values = LocalValues()
    for _ in range(2):
        assert (await facts_of(values, StubTask("1")).establish("x", 1)).outcome == "established"
        assert (await facts_of(values, StubTask("2")).establish("x", 1)).fact.confirmed_by == ("2",)
        found = await facts_of(values, StubTask("3")).establish("x", 2)
        assert len(found.fact.contradictions) == 1


async def test_a_contradiction_is_recorded_and_told_and_stays_open() -> None:
    values, other = LocalValues(), StubTask("2", "tourist")
    await facts_of(values, StubTask("1", "archivist")).establish("arches", 14)
    found = await facts_of(values, other).establish("arches", 12)
    assert found.contradiction == Contradiction(12, "tourist", "2")
    assert (found.fact.value, found.fact.is_contested) == (14, True)
    (message,) = other.sent.values()
    told = {"established": 14, "by": "archivist", "contradicted": 12, "contradicted_by": "tourist"}
    assert (message.key, message.value) == ("contradiction: arches", told)
    assert other.asked == []


async def test_a_contradiction_is_recorded_though_its_message_is_refused() -> None:
    values = LocalValues()
    await facts_of(values, StubTask("1")).establish("x", 1)
    found = await facts_of(values, StubTask("2", refuses=True)).establish("x", 2)
    assert found.fact.is_contested


@pytest.mark.parametrize(
    ("reply", "status", "value"),
    [("14", "kept", 14), ("12.", "replaced", 12), ("There are 13", "replaced", "There are 13")],
)
async def test_an_arbiter_settles_a_contradiction(reply: str, status: str, value: Any) -> None:
    values = LocalValues()
    await facts_of(values, StubTask("1")).establish("arches", 14)
    verdict = Verdict("verify", "established", "it has passed").metadata
    task = StubTask("2", reply=Delegated(reply, metadata=verdict))
    found = await facts_of(values, task).establish("arches", 12, arbiter="judge")
    assert found.contradiction is not None
    assert (found.contradiction.status, found.contradiction.way, found.contradiction.reason) == (
        status,
        "verify",
        "it has passed",
    )
    assert (found.fact.value, found.fact.is_contested) == (value, False)
    assert task.asked[0][0] == "judge"
    await facts_of(values, task).establish("arches", 12, arbiter="judge")
    assert len(task.asked) == 1 or found.fact.value == 12


async def test_the_metadata_of_the_run_names_the_arbiter() -> None:
    values = LocalValues()
    await facts_of(values, StubTask("1")).establish("x", 1)
    task = StubTask("2", reply=Delegated("2"), metadata={ARBITER_KEY: "judge"})
    found = await facts_of(values, task).check({"x": 2, "other": 3})
    assert [each.contradiction and each.contradiction.status for each in found] == ["replaced"]
    assert found[0].fact.value == 2
    assert found[0].contradiction == Contradiction(2, "researcher", "2", "replaced", "judge")


async def test_an_arbiter_that_does_not_decide_leaves_it_open() -> None:
    values = LocalValues()
    await facts_of(values, StubTask("1")).establish("x", 1)
    task = StubTask("2", reply=UnknownRole("there is no role judge"))
    found = await facts_of(values, task).establish("x", 2, arbiter="judge")
    assert found.contradiction is not None
    assert found.contradiction.status == "open"
    assert "judge has not decided: there is no role judge" in found.contradiction.reason
    assert found.fact.value == 1


async def test_an_arbiter_does_not_ask_itself() -> None:
    values = LocalValues()
    await facts_of(values, StubTask("1")).establish("x", 1)
    found = await facts_of(values, StubTask("2", "judge")).establish("x", 2, arbiter="judge")
    assert found.fact.is_contested


async def test_a_check_compares_the_members_that_name_facts() -> None:
    values = LocalValues()
    facts = facts_of(values, StubTask("1"))
    await facts.establish("arches", 14)
    await facts.establish("year", 1665)
    found = await facts_of(values, StubTask("2")).check({"Arches": 14, "year": 1900, "colour": "red"})
    assert [(each.fact.key, each.outcome) for each in found] == [("arches", "confirmed"), ("year", "contradicted")]
    assert await facts.get("colour") is None
    assert [fact.key for fact in await facts.list()] == ["arches", "year"]
    assert await facts_of(values, StubTask("2")).check({}) == []


async def test_concurrent_tasks_establish_one_fact() -> None:
    values = LocalValues()
    found = await asyncio.gather(*(facts_of(values, StubTask(str(n))).establish("x", 7) for n in range(10)))
    assert [each.outcome for each in found].count("established") == 1
    fact = await facts_of(values, StubTask("0")).get("x")
    assert fact is not None
    assert len(fact.confirmed_by) == 9


async def test_facts_are_bounded() -> None:
    values = LocalValues()
    facts = facts_of(values, StubTask("1"))
    await facts.establish("x", 1)
    with pytest.raises(ResourceExhausted, match="at most 16,384 bytes"):
        await facts.establish("y", "y" * MAX_FACT_BYTES)
    (found,) = await facts_of(values, StubTask("2")).check({"x": "y" * MAX_FACT_BYTES})
    assert found.contradiction is not None
    assert found.contradiction.value == "y" * 1_000
    for number in range(MAX_CONTRADICTIONS - 1):
        await facts_of(values, StubTask(f"t{number}")).establish("x", 100 + number)
    with pytest.raises(ResourceExhausted, match="20 contradictions"):
        await facts_of(values, StubTask("last")).establish("x", 99)


@pytest.mark.parametrize("key", ["", "...", "x" * 201])
async def test_keys_without_words_are_refused(key: str) -> None:
    with pytest.raises(InvalidArgument):
        await facts_of(LocalValues(), StubTask("1")).establish(key, 1)


async def test_values_of_others_under_the_prefix_are_no_facts() -> None:
    values = LocalValues()
    await values.set("fact.x", "garbage")
    await values.set("fact.y", {"key": "y", "value": 1, "role": "", "task_id": "", "confirmed_by": 3})
    facts = facts_of(values, StubTask("1"))
    assert await facts.list() == []
    assert (await facts.establish("x", 1)).outcome == "established"


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ("text", None),
        (Answer('{"a": 1}'), {"a": 1}),
        (Answer(parts=[Part(data_json='{"a": 1}')]), {"a": 1}),
        (Answer(parts=[Part(text='{"a": 1}')]), {"a": 1}),
        (Answer("x", parts=[Part(data_json='{"a": 1}')]), None),
        (Answer(parts=[Part(text="x"), Part(data_json='{"a": 1}')]), None),
        (Answer(parts=[Part(data_json="[1]")]), None),
        (None, None),
    ],
)
def test_an_answer_that_is_one_json_object_is_compared(outcome: Any, found: Any) -> None:
    assert _object_of(outcome) == found


def test_a_stored_fact_is_json() -> None:
    async def stored() -> str:
        values = LocalValues()
        await facts_of(values, StubTask("1")).establish("x", {"a": [1]})
        current = await values.get_value("fact.x")
        assert current is not None
        return json.dumps(current.value)

    assert '"value": {"a": [1]}' in asyncio.run(stored())
