"""Recovery from failures in a process: user's handlers first, then the advice of the catalogue of failures.

recovery = RecoveryOrchestrator()

@recovery.register_handler("model.provider")
async def other_model(context: ErrorContext) -> Recovery | None:
    return Recovery.answer("The model is unreachable.") if context.attempt > 2 else None
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar

from archon.errors import ArchonError, InvalidArgument
from archon.failure_kinds import CATALOGUE, ErrorSeverity, RetryAdvice
from archon_mesh.engine.decide.retries import MAX_ALIKE
from archon_mesh.engine.state import MAX_RECENT

__all__ = ["ErrorContext", "ErrorSeverity", "Recovery", "RecoveryAction", "RecoveryOrchestrator"]

_log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
"""Attempts of the first recovery."""

MIN_BACKOFF: Final = 0.5
MAX_BACKOFF: Final = 30.0

ANY: Final = "*"


class RecoveryAction(Enum):
    """The action on a failure."""

    RETRY = "try again"
    ANSWER = "go on with a substitute"
    FAIL = "give up: the error is raised"


@dataclass(frozen=True, slots=True)
class Recovery:
    """A decision about a failure: try again after `delay` seconds, go on with the text `substitute`, or fail."""

    action: RecoveryAction
    delay: float = 0.0
    substitute: str = ""

    @classmethod
    def retry(cls, delay: float = 0.0) -> Recovery:
        """Tries again after `delay` seconds."""
        return cls(RecoveryAction.RETRY, max(0.0, delay))

    @classmethod
    def answer(cls, substitute: str) -> Recovery:
        """Goes on with a text in place of the failed result."""
        return cls(RecoveryAction.ANSWER, substitute=substitute)

    @classmethod
    def fail(cls) -> Recovery:
        """Leaves the failure to the caller: the error is raised."""
        return cls(RecoveryAction.FAIL)


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """A failure and where it happened: in which component, in which attempt at the same work (from 1)."""

    error: ArchonError
    component: str = ""
    attempt: int = 1
    severity: ErrorSeverity = ErrorSeverity.LOW
    """At least the error's; higher if its kind has failed repeatedly."""

    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises the severity to the error's."""
        object.__setattr__(self, "severity", max(self.severity, self.error.severity))

    @property
    def kind(self) -> str:
        """The kind of the failure, such as `tool.timeout`."""
        return self.error.kind


Handler = Callable[[ErrorContext], Recovery | Awaitable[Recovery | None] | None]


class RecoveryOrchestrator:
    """Decides about failures. `max_attempts` bounds the attempts of the built-in recovery."""

    def __init__(self, *, max_attempts: int = MAX_ATTEMPTS) -> None:
        self._max_attempts = max_attempts
        self._handlers: dict[str, list[Handler]] = {}
        self._recent: deque[str] = deque(maxlen=MAX_RECENT)

    def register_handler(self, kind: str, handler: Handler | None = None) -> Callable[[Handler], Handler]:
        """Registers a handler for a kind (`tool.timeout`), for a class of kinds (`tool`), or for all failures (`*`).
        Usable as a decorator.

        A handler returns a decision, or None to leave it to the next one: handlers of the kind come first, then of its
        class, then for all, the newest first. One that raises is logged and skipped. Raises InvalidArgument for a kind
        that is not in the catalogue.
        """
        classes = {name.partition(".")[0] for name in CATALOGUE}
        if kind != ANY and kind not in CATALOGUE and kind not in classes:
            raise InvalidArgument(f"unknown kind of failure {kind!r}; see archon.failure_kinds.CATALOGUE")

        def register(handler: Handler) -> Handler:
            self._handlers.setdefault(kind, []).insert(0, handler)
            return handler

        if handler is not None:
            register(handler)
        return register

    async def handle_error(self, context: ErrorContext) -> Recovery:
        """Returns the decision about a failure: from the first handler that makes one, else the built-in one, which
        retries as the failure advises, up to `max_attempts` attempts."""
        if self._recent.count(context.kind) >= MAX_ALIKE:
            context = replace(context, severity=max(context.severity, ErrorSeverity.HIGH))
        self._recent.append(context.kind)
        for key in (context.kind, context.kind.partition(".")[0], ANY):
            for handler in self._handlers.get(key, ()):
                try:
                    decision = handler(context)
                    decision = await decision if inspect.isawaitable(decision) else decision
                except Exception:  # noqa: BLE001 - a user's code may raise anything; the next handler decides
                    _log.exception("a handler for %s failed", key)
                    continue
                if decision is not None:
                    return decision
        return self._built_in(context)

    async def handle_errors(self, contexts: Sequence[ErrorContext]) -> list[Recovery]:
        """Handles several failures, the most severe first. Returns the decisions in the order of `contexts`."""
        order = sorted(range(len(contexts)), key=lambda number: -contexts[number].severity)
        decisions = {number: await self.handle_error(contexts[number]) for number in order}
        return [decisions[number] for number in range(len(contexts))]

    def _built_in(self, context: ErrorContext) -> Recovery:
        error = context.error
        if error.retry is RetryAdvice.NEVER or context.attempt >= self._max_attempts:
            return Recovery.fail()
        if error.retry_delay is not None:
            return Recovery.retry(min(MAX_BACKOFF, error.retry_delay))
        ceiling = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** (context.attempt - 1))
        return Recovery.retry(random.uniform(0.0, ceiling))  # full jitter


T = TypeVar("T")


async def recovered(
    work: Callable[[], Awaitable[T]],
    recovery: RecoveryOrchestrator,
    substitute: Callable[[str], T],
    *,
    component: str = "",
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Does some work until it succeeds or the recovery gives up; `substitute` converts the text of a substitute to a
    result. Raises the last error."""
    attempt = 1
    while True:
        try:
            return await work()
        except ArchonError as error:
            decision = await recovery.handle_error(ErrorContext(error, component, attempt))
            if decision.action is RecoveryAction.FAIL:
                raise
        if decision.action is RecoveryAction.ANSWER:
            return substitute(decision.substitute)
        await sleep(decision.delay)
        attempt += 1
