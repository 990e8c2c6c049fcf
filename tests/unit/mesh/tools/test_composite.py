"""Composite tools: what runs when, what is refused before it runs, and what an aborted call leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, tool
from archon_mesh.tools.composite import (
    Argument,
    CompositeTool,
    Item,
    Result,
    When,
)
from archon_mesh.tools.composite.composite import MAX_PARALLEL
from tests.fixtures.composite_tools import double, fail, find, join, no_pause, read, run


def research() -> CompositeTool:
    return (
        CompositeTool(
            "research",
            "Reads pages on a topic.",
            outputs={"text": Result("joined", "text"), "first": Result("found", "0.url")},
        )
        .add_node("found", find, {"topic": Argument("topic"), "limit": 4})
        .add_node("pages", read, {"url": Item("url")}, for_each=Result("found"), parallel=2)
        .add_node("joined", join, {"texts": Result("pages"), "title": Argument("title", default="on it")})
    )


async def test_inputs_come_from_arguments_results_and_constants() -> None:
    result = await run(research(), topic="sea", title="The sea")
    assert result.content == {"text": "The sea: page 0, page 1, page 2, page 3", "first": "https://sea.example/0"}
    assert (await run(research(), topic="sea")).content["text"].startswith("on it: ")


def test_parameters_are_derived_with_their_types() -> None:
    schema = research().parameters_schema
    assert schema["properties"]["topic"]["type"] == "string"
    assert schema["properties"]["title"]["type"] == "string"
    assert schema["required"] == ["topic"]
    listed = CompositeTool("c", "d").add_node("n", read, {"url": Item()}, for_each=Argument("urls"), max_items=7)
    urls = listed.parameters_schema["properties"]["urls"]
    assert (urls["type"], urls["items"]["type"], urls["maxItems"]) == ("array", "string", 7)
    described = CompositeTool("c", "d", parameters={"topic": {"type": "string", "enum": ["sea"]}})
    described.add_node("n", find, {"topic": Argument("topic")})
    assert described.parameters_schema["properties"]["topic"]["enum"] == ["sea"]


async def test_wrong_arguments_are_refused_before_a_node_runs() -> None:
    result = await run(research(), topic=5)
    assert result.metadata["code"] == "INVALID_ARGUMENT"
    assert result.metadata["attempts"] == 0


async def test_default_output_is_that_of_the_last_nodes() -> None:
    composite = CompositeTool("c", "d").add_node("a", double, {"number": 1})
    composite.add_node("b", double, {"number": Result("a")}).add_node("c", double, {"number": Result("a")})
    assert (await run(composite)).content == {"b": 4, "c": 4}


async def test_independent_nodes_run_at_the_same_time() -> None:
    together = asyncio.Barrier(3)

    @tool
    async def meet() -> str:
        """Waits for the others."""
        await together.wait()
        return "met"

    composite = CompositeTool("c", "d", seconds=15)
    for name in ("a", "b", "c"):
        composite.add_node(name, meet)
    assert (await run(composite)).content == {"a": "met", "b": "met", "c": "met"}


async def test_items_run_in_parallel_up_to_their_bound_in_order() -> None:
    running, most = 0, 0

    @tool
    async def work(number: int) -> int:
        """Works, the later items shorter."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20 - number):
            await asyncio.sleep(0)
        running -= 1
        return number

    composite = CompositeTool("c", "d").add_node(
        "n", work, {"number": Item()}, for_each=Argument("numbers"), parallel=3
    )
    assert (await run(composite, numbers=list(range(10)))).content == {"n": list(range(10))}
    assert most == 3


async def test_calls_of_a_composite_at_the_same_time_are_bounded() -> None:
    running, most = 0, 0

    @tool
    async def work(number: int) -> int:
        """Works for a while."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return number

    composite = CompositeTool("c", "d")
    for number in range(3 * MAX_PARALLEL):
        composite.add_node(f"n{number}", work, {"number": number})
    assert (await run(composite)).ok
    assert most == MAX_PARALLEL


async def test_list_above_its_bound_fails_the_node() -> None:
    composite = CompositeTool("c", "d").add_node("f", find, {"topic": "sea", "limit": 9})
    composite.add_node("n", read, {"url": Item("url")}, for_each=Result("f"), max_items=8)
    result = await run(composite)
    assert "9 items; at most 8" in result.error_message
    assert result.metadata["failed_node"] == "n"


@pytest.mark.parametrize(("number", "taken"), [(1, "small"), (50, "large")])
async def test_branch_runs_by_the_condition_of_its_edge(number: int, taken: str) -> None:
    composite = CompositeTool(
        "c", "d", outputs={"small": Result("small"), "large": Result("large"), "end": Result("end")}
    )
    composite.add_node("start", double, {"number": Argument("number")})
    composite.add_node("small", double, {"number": 1}).add_node("large", double, {"number": 1000})
    composite.add_edge("start", "small", when=When(Result("start"), "<", 10))
    composite.add_edge("start", "large", when=When(Result("start"), ">=", 10))
    composite.add_node("end", join, {"texts": [Result("small", default=0), Result("large", default=0)]}, join="any")
    result = await run(composite, number=number)
    other = {"small": "large", "large": "small"}[taken]
    assert result.content[other] is None
    assert result.content[taken] == (2 if taken == "small" else 2000)
    assert result.content["end"]["count"] == 2
    assert result.metadata["skipped"] == [other]


async def test_node_after_a_skipped_one_is_skipped_too() -> None:
    composite = CompositeTool("c", "d").add_node("a", double, {"number": 1}, when=When(Argument("go"), "==", True))
    composite.add_node("b", double, {"number": Result("a")}).add_node("c", double, {"number": 5})
    assert (await run(composite, go=False)).content == {"c": 10}
    composite = CompositeTool("c", "d").add_node("a", double, {"number": 1}, when=When(Argument("go"), "==", True))
    composite.add_node("b", double, {"number": Result("a")})
    assert (await run(composite, go=True)).content == {"b": 4}


@pytest.mark.parametrize(
    ("operator", "operand", "value", "holds"),
    [
        ("==", 1, 1, True),
        ("!=", 1, 1, False),
        ("<=", 2, 2, True),
        (">", "b", "a", False),
        (">", 5, "text", False),
        ("in", [1, 2], 2, True),
        ("contains", "b", ["a", "b"], True),
        ("contains", "b", 5, False),
        ("exists", True, None, True),
        ("is_empty", True, [], True),
        ("is_empty", False, [], False),
    ],
)
def test_condition_compares_values_and_nothing_else(operator: Any, operand: Any, value: Any, holds: bool) -> None:
    assert When(Argument("a"), operator, operand).holds(value, exists=True) is holds
    with pytest.raises(InvalidArgument, match="unknown operator"):
        When(Argument("a"), "__import__('os')", 1)  # type: ignore[arg-type]


async def test_failure_aborts_with_partial_results() -> None:
    composite = (
        CompositeTool("c", "d").add_node("a", double, {"number": 1}).add_node("b", fail, {"number": Result("a")})
    )
    composite.add_node("c", double, {"number": Result("b")})
    result = await run(composite)
    assert not result.ok
    assert "node b failed: ConnectionError: out of order; completed: a" in result.error_message
    assert result.metadata["partial_results"] == {"a": 2}
    assert (result.metadata["failed_node"], result.metadata["code"]) == ("b", "UNAVAILABLE")


async def test_large_partial_results_are_left_out() -> None:
    @tool
    async def long() -> str:
        """Returns a long text."""
        return "x" * 9000

    composite = CompositeTool("c", "d").add_node("a", long).add_node("b", fail).add_edge("a", "b")
    result = await run(composite)
    assert result.metadata["partial_results"] == {}
    assert "completed: a" in result.error_message


async def test_continued_failure_lets_the_others_run() -> None:
    composite = CompositeTool("c", "d").add_node("a", fail, on_error="continue")
    composite.add_node("after", double, {"number": 1}).add_edge("a", "after")
    composite.add_node("reads", double, {"number": Result("a")})
    composite.add_node("defaults", double, {"number": Result("a", default=4)})
    composite.add_node("instead", double, {"number": 7}).add_edge(
        "a", "instead", when=When(Result("a"), "exists", False)
    )
    result = await run(composite)
    assert result.content == {"after": 2, "defaults": 8, "instead": 14}
    assert result.metadata["errors"] == {"a": "ConnectionError: out of order"}
    assert result.metadata["skipped"] == ["reads"]


async def test_failed_items_are_none_if_the_node_continues() -> None:
    @tool
    async def odd(number: int) -> int:
        """Fails for even numbers."""
        if number % 2 == 0:
            raise ConnectionError("even")
        return number

    composite = CompositeTool("c", "d").add_node(
        "n", odd, {"number": Item()}, for_each=Argument("numbers"), on_error="continue"
    )
    assert (await run(composite, numbers=[1, 2, 3])).content == {"n": [1, None, 3]}


async def test_node_that_retries_makes_its_attempts() -> None:
    calls = 0

    @tool
    async def third(until: int) -> int:
        """Succeeds at a later call."""
        nonlocal calls
        calls += 1
        if calls < until:
            raise ConnectionError("not yet")
        return calls

    def composite() -> CompositeTool:
        made = CompositeTool("c", "d", sleep=no_pause)
        return made.add_node("n", third, {"until": Argument("until")}, on_error="retry", attempts=3)

    assert (await run(composite(), until=3)).content == {"n": 3}
    calls = 0
    assert "not yet" in (await run(composite(), until=9)).error_message
    assert calls == 3
    calls = 0
    await run(
        CompositeTool("c", "d", sleep=no_pause).add_node("n", third, {"until": Argument("u")}, on_error="retry"), u=1
    )
    assert calls == 1


class Ledger:
    """Books and cancels, and remembers the order."""

    def __init__(self, broken: str = "") -> None:
        self.entries: list[str] = []

        @tool
        async def book(what: str) -> dict[str, str]:
            """Books something."""
            self.entries.append(f"book {what}")
            return {"id": f"id-{what}"}

        @tool
        async def cancel(booking: str) -> str:
            """Cancels a booking."""
            self.entries.append(f"cancel {booking}")
            if booking == broken:
                raise ConnectionError("cannot cancel")
            return "cancelled"

        self.book, self.cancel = book, cancel

    def trip(self) -> CompositeTool:
        composite = CompositeTool("trip", "Books a trip.")
        for before, what in (("", "flight"), ("flight", "hotel"), ("hotel", "car")):
            undo = {"booking": Result(what, "id")}
            composite.add_node(what, self.book, {"what": what}, compensate_with=self.cancel, compensate_inputs=undo)
            if before:
                composite.add_edge(before, what)
        return composite.add_node("pay", fail).add_edge("car", "pay")


async def test_completed_calls_are_undone_in_reverse_order() -> None:
    ledger = Ledger()
    result = await run(ledger.trip())
    booked = ["book flight", "book hotel", "book car"]
    assert ledger.entries == [*booked, "cancel id-car", "cancel id-hotel", "cancel id-flight"]
    assert "undone: car, hotel, flight" in result.error_message


async def test_failed_compensation_is_reported_after_the_first_error() -> None:
    ledger = Ledger(broken="id-hotel")
    result = await run(ledger.trip())
    assert ledger.entries[-1] == "cancel id-flight", "the compensations after a failed one run"
    assert result.error_message.startswith("node pay failed: ConnectionError: out of order")
    assert "not undone: hotel (ConnectionError: cannot cancel)" in result.error_message
    assert [each["ok"] for each in result.metadata["compensations"]] == [True, False, True]


async def test_each_item_is_undone_with_its_own_result() -> None:
    ledger = Ledger()
    composite = CompositeTool("c", "d").add_node(
        "all",
        ledger.book,
        {"what": Item()},
        for_each=Argument("things"),
        parallel=1,
        compensate_with=ledger.cancel,
        compensate_inputs={"booking": Result("all", "id")},
    )
    composite.add_node("pay", fail).add_edge("all", "pay")
    await run(composite, things=["a", "b"])
    assert ledger.entries == ["book a", "book b", "cancel id-b", "cancel id-a"]


async def test_call_that_takes_too_long_is_aborted_and_undone() -> None:
    ledger = Ledger()

    @tool
    async def hang() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    composite = CompositeTool("c", "d", seconds=0.1)
    undo = {"booking": Result("a", "id")}
    composite.add_node("a", ledger.book, {"what": "a"}, compensate_with=ledger.cancel, compensate_inputs=undo)
    composite.add_node("b", hang).add_edge("a", "b")
    result = await run(composite)
    assert "no result within 0.1 s" in result.error_message
    assert ledger.entries == ["book a", "cancel id-a"]


async def test_cancelled_call_cancels_and_awaits_its_nodes() -> None:
    begun, ended = asyncio.Event(), []

    @tool
    async def hang(name: str) -> None:
        """Ends when it is cancelled."""
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    composite = CompositeTool("c", "d").add_node("a", hang, {"name": "a"}).add_node("b", hang, {"name": "b"})
    task = asyncio.create_task(run(composite))
    await asyncio.wait_for(begun.wait(), 60)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == ["a", "b"]


async def test_concurrent_calls_share_no_state() -> None:
    composite = research()
    engine = ToolExecutionEngine(ToolRegistry([composite]))
    results = await asyncio.gather(*(run(composite, engine=engine, topic=f"t{n}", title=f"T{n}") for n in range(20)))
    assert [result.content["first"] for result in results] == [f"https://t{n}.example/0" for n in range(20)]
    assert [result.content["text"][:3] for result in results[:9]] == [f"T{n}:" for n in range(9)]


@tool(dangerous=True)
async def wipe() -> str:
    """Deletes everything."""
    WIPED.append("wiped")
    return "wiped"


WIPED: list[str] = []


@pytest.mark.parametrize(
    ("permissions", "is_allowed"),
    [
        (None, False),
        ({"allowed": ["*"]}, False),
        ({"allowed": ["clean", "double"]}, False),
        ({"allowed": ["*", "wipe"]}, True),
        ({"allowed": ["*", "wipe"], "denied": ["wipe"]}, False),
        ({"allowed": ["*", "wipe"], "denied": ["double"]}, False),
    ],
)
@pytest.mark.parametrize("is_nested", [False, True])
async def test_composite_may_do_no_more_than_its_tools(permissions: Any, is_allowed: bool, is_nested: bool) -> None:
    WIPED.clear()
    composite = CompositeTool("clean", "Cleans.").add_node("a", double, {"number": 1}).add_node("b", wipe)
    composite.add_edge("b", "a")
    if is_nested:
        composite = CompositeTool("outer", "Cleans.").add_node("inner", composite)
        permissions = {**(permissions or {})}
        if permissions.get("allowed"):
            permissions["allowed"] = [*permissions["allowed"], "outer"]
    engine = ToolExecutionEngine(ToolRegistry([composite]), permissions=permissions)
    result = await run(composite, engine=engine)
    assert result.ok is is_allowed
    assert (["wiped"] if is_allowed else []) == WIPED, "nothing runs before all permissions are checked"
    assert is_allowed or result.metadata["code"] == "PERMISSION_DENIED"


async def test_tool_is_denied_by_the_name_of_its_namespace() -> None:
    registry = ToolRegistry()
    registry.register_tool(double, namespace="math")
    composite = CompositeTool("c", "d").add_node("a", double, {"number": 1})
    registry.register_tool(composite)
    result = await run(composite, engine=ToolExecutionEngine(registry, permissions={"denied": ["math.*"]}))
    assert result.error_message == "tool math.double is denied"


async def test_calls_of_nodes_count_for_their_tools() -> None:
    engine = ToolExecutionEngine(ToolRegistry([fail, *(composite := [CompositeTool("c", "d").add_node("a", fail)])]))
    for _ in range(5):
        await run(composite[0], engine=engine)
    assert engine.health()["fail"].failures == 5
    assert "off for" in (await engine.execute_tool_call("fail")).error_message
    alone = CompositeTool("c", "d").add_node("a", fail)
    engine = ToolExecutionEngine(ToolRegistry([alone]))
    messages = [(await run(alone, engine=engine)).error_message for _ in range(6)]
    assert "off for" in messages[5], "the breaker of a tool that only the composite has"


async def test_quota_of_the_engine_counts_each_node() -> None:
    composite = CompositeTool("c", "d").add_node("a", double, {"number": 1}).add_node("b", double, {"number": 2})
    engine = ToolExecutionEngine(ToolRegistry([composite]), quota=2, timeout=0.05)
    result = await run(composite, engine=engine)
    assert "the quota of 2 calls per minute is used up" in result.error_message


async def test_composite_runs_inside_of_a_composite() -> None:
    outer = CompositeTool("outer", "d", outputs={"n": Result("join", "count")})
    outer.add_node("inner", research(), {"topic": Argument("topic")}).add_node(
        "join", join, {"texts": [Result("inner", "text"), Result("inner", "first")]}
    )
    assert (await run(outer, topic="sea")).content == {"n": 2}


def test_diagrams_show_nodes_branches_and_compensations() -> None:
    ledger = Ledger()
    trip = ledger.trip().add_node("note", double, {"number": 1})
    trip.add_edge("car", "note", when=When(Result("car", "id"), "==", 'a "b" `c` <d> #1'))
    mermaid = trip.to_mermaid()
    assert mermaid.startswith('flowchart TD\n    n0["flight<br/>book"]\n')
    assert "    n0 --> n1\n" in mermaid
    assert "undo: cancel" in mermaid
    assert '"b"' not in mermaid, "quotes would end the label"
    assert "`" not in mermaid, "a label in backticks is Markdown"
    dot = trip.to_dot()
    assert dot.startswith('digraph "trip" {\n  "flight" [shape=box')
    assert '"flight" -> "hotel";' in dot
    assert dot.count("{") == dot.count("}") == 1
