"""Hooks registered one at a time: `agent.on(event).when(condition).handle(decision, value, effects)`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware, SingleHook, maybe_await
from archon_mesh.agent.hooks.points import LEGAL, HookDecision, HookEvent, Outcome, check

_log = logging.getLogger(__name__)

Condition = Callable[[HookContext], Any]
Effect = Callable[[HookContext], Any]

_ANY: Final = object()


class HasHooks(Protocol):
    """An agent, as far as a handler needs it."""

    registered: list[Middleware | SingleHook]


A = TypeVar("A", bound=HasHooks)


class Handler(Generic[A]):
    """Returned by `agent.on(event)`. `handle` registers a hook that applies if all conditions given to `when` hold."""

    def __init__(self, agent: A, event: HookEvent | str) -> None:
        """Raises ValueError if there is no such event."""
        self._agent = agent
        self.event = HookEvent(event)
        self._conditions: list[Condition] = []

    def when(self, condition: Condition) -> Handler[A]:
        """Adds a condition: a function of the HookContext, sync or async."""
        self._conditions.append(condition)
        return self

    def handle(
        self,
        decision: HookDecision | str = HookDecision.CONTINUE,
        value: Any = None,
        effects: Effect | Sequence[Effect] | None = None,
    ) -> A:
        """Registers the hook and returns the agent.

        `value` is the value of the decision, or a function of the HookContext that computes it. `effects` run first; an
        effect that raises is logged and changes nothing. Raises InvalidArgument if the event does not allow the
        decision or the value.
        """
        hook_decision = HookDecision(decision)
        is_computed = callable(value)
        if not is_computed:
            check(self.event, hook_decision, value)
        elif hook_decision is not HookDecision.FAIL and LEGAL[self.event].get(hook_decision) is None:
            check(self.event, hook_decision, _ANY)  # checks that a value is allowed; its type is checked when computed
        all_effects = [effects] if callable(effects) else list(effects or ())
        name = f"the handler of {self.event} no. {_next_number(self._agent, self.event)}"
        conditions = tuple(self._conditions)

        async def hook(context: HookContext) -> Outcome | None:
            for condition in conditions:
                if not await maybe_await(condition(context)):
                    return None
            for effect in all_effects:
                await _run_effect(effect, context, name)
            return Outcome(hook_decision, await maybe_await(value(context)) if is_computed else value)

        self._agent.registered.append(SingleHook(self.event, name, hook))
        return self._agent


def _next_number(agent: HasHooks, event: HookEvent) -> int:
    return 1 + sum(isinstance(item, SingleHook) and item.event is event for item in agent.registered)


async def _run_effect(effect: Effect, context: HookContext, name: str) -> None:
    try:
        await maybe_await(effect(context))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an effect must not fail the run
        _log.exception("an effect of %s raised %s", name, type(error).__name__)
