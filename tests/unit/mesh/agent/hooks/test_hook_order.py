"""The order of hooks, compared with a reference model."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from archon_mesh.agent import HookContext, Middleware, go_on, stop
from tests.fixtures.scripted_model import says
from tests.unit.mesh.agent.hooks.test_hooks import CONTINUE, STOP, new_agent


def with_mark(mark: str, hook: HookContext) -> str:
    return hook.value + mark


@st.composite
def registrations(draw: st.DrawFn) -> list[tuple[str, str, str, bool]]:
    """(how, decision, mark, whether its condition holds), in order of registration."""
    how = st.sampled_from(["handler", "middleware"])
    decision = st.sampled_from(["continue", "continue", "mark", "stop"])
    drawn = draw(st.lists(st.tuples(how, decision, st.booleans()), max_size=8))
    return [(kind, decided, f"<{number}>", holds) for number, (kind, decided, holds) in enumerate(drawn)]


@settings(deadline=None)  # a slow machine is not an error
@given(registrations())
async def test_hooks_run_in_registration_order_as_in_a_reference_model(
    registered: list[tuple[str, str, str, bool]],
) -> None:
    called: list[str] = []

    class Marked(Middleware):
        def __init__(self, decided: str, mark: str, holds: bool) -> None:
            self.decided, self.mark, self.holds = decided, mark, holds

        def query_start(self, hook: HookContext) -> Any:
            if not self.holds:
                return None
            called.append(self.mark)
            if self.decided == "stop":
                return stop(hook.value + self.mark)
            return go_on(hook.value + self.mark) if self.decided == "mark" else None

    agent = new_agent(says("x"))
    for how, decided, mark, holds in registered:
        if how == "middleware":
            agent.use(Marked(decided, mark, holds))
            continue
        value = None if decided == "continue" else partial(with_mark, mark)
        handler = agent.on("query_start").when(partial(lambda holds, hook: holds, holds))
        handler.handle(STOP if decided == "stop" else CONTINUE, value, partial(lambda m, hook: called.append(m), mark))
    answer = await agent.run_async("?")
    query, expected, stopped = "?", [], False
    for _, decided, mark, holds in registered:
        if holds:
            expected.append(mark)
            query += mark if decided != "continue" else ""
            stopped = decided == "stop"
            if stopped:
                break
    assert called == expected
    assert answer == query if stopped else (answer, agent.history[0].content) == ("x", query)
