"""Hooks that are registered one by one: `agent.on(event).when(condition).handle(decision, value, effects)`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from archon_mesh.agent.hooks.middleware import SingleHook, settled
from archon_mesh.agent.hooks.points import LEGAL, HookContext, HookDecision, HookEvent, Outcome, check

if TYPE_CHECKING:
    from archon_mesh.agent.agent import Agent

_log = logging.getLogger(__name__)

Condition = Callable[[HookContext], Any]
Effect = Callable[[HookContext], Any]

_ANY: Final = object()


class Handler:
    """`agent.on(event)`: `when` a condition holds, `handle` it. Conditions of several calls of `when` must all hold."""

    def __init__(self, agent: Agent, event: HookEvent | str) -> None:
        """Raises ValueError for an event that isn't there."""
        self._agent = agent
        self.event = HookEvent(event)
        self._conditions: list[Condition] = []

    def when(self, condition: Condition) -> Handler:
        """A function of the HookContext, sync or async."""
        self._conditions.append(condition)
        return self

    def handle(
        self,
        decision: HookDecision | str = HookDecision.CONTINUE,
        value: Any = None,
        effects: Effect | Sequence[Effect] | None = None,
    ) -> Agent:
        """`value` is what the decision brings, or a function of the HookContext that gives it. `effects` are carried
        out first; one that raises is logged and changes nothing. Raises InvalidArgument for a decision, or a value,
        that the event doesn't take."""
        decided = HookDecision(decision)
        computed = callable(value)
        if not computed:
            check(self.event, decided, value)
        elif decided is not HookDecision.FAIL and LEGAL[self.event].get(decided) is None:
            check(self.event, decided, _ANY)  # that there may be a value at all; the one it gives is checked then
        wanted = [effects] if callable(effects) else list(effects or ())
        name = f"the handler of {self.event} no. {_number(self._agent, self.event)}"
        conditions = tuple(self._conditions)

        async def hook(seen: HookContext) -> Outcome | None:
            for condition in conditions:
                if not await settled(condition(seen)):
                    return None
            for effect in wanted:
                await _carried_out(effect, seen, name)
            return Outcome(decided, await settled(value(seen)) if computed else value)

        self._agent.registered.append(SingleHook(self.event, name, hook))
        return self._agent


def _number(agent: Agent, event: HookEvent) -> int:
    return 1 + sum(isinstance(one, SingleHook) and one.event is event for one in agent.registered)


async def _carried_out(effect: Effect, seen: HookContext, name: str) -> None:
    try:
        await settled(effect(seen))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is nobody's business but its own
        _log.exception("an effect of %s raised %s", name, type(error).__name__)
