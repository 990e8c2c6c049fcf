"""Hooks: middlewares that bring several, handlers that are registered one by one, and how they are run, in order."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from archon.errors import ArchonError, Internal
from archon_mesh.agent.errors import HookError
from archon_mesh.agent.hooks.points import HookContext, HookDecision, HookEvent, Outcome, check
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import ModelReply
from archon_mesh.tools.result import ToolResult

if TYPE_CHECKING:
    from archon_mesh.agent.loop.model_request import ModelParams
    from archon_mesh.agent.state.agent_state import AgentState

P = ParamSpec("P")
T = TypeVar("T")
ModelCall = Callable[["ModelParams"], Awaitable[ModelReply]]
QueryCall = Callable[[], Awaitable[str]]
ToolRun = Callable[[], Awaitable[ToolResult]]
Hook = Callable[[HookContext], Any]


class Middleware:
    """Derive from it and write the methods that you need, sync or async; the others cost nothing. Each but the last
    four takes a HookContext, and returns an Outcome (`go_on`, `retry`, `stop`, `fail`), or None to go on.

    Hooks run in the order in which they were registered, before and after alike. The first that doesn't continue
    decides; what one continues with the next one sees. What a hook raises fails the run, and is named.
    """

    inherited = False
    """True: it is used by the sub-agents below, too, those that have none of its class."""

    @property
    def name(self) -> str:
        """As errors name it."""
        return type(self).__name__

    def query_start(self, hook: HookContext) -> Any: ...
    def query_end(self, hook: HookContext) -> Any: ...
    def before_agent(self, hook: HookContext) -> Any: ...
    def after_agent(self, hook: HookContext) -> Any: ...
    def before_model(self, hook: HookContext) -> Any: ...
    def after_model(self, hook: HookContext) -> Any: ...
    def before_tool(self, hook: HookContext) -> Any: ...
    def after_tool(self, hook: HookContext) -> Any: ...
    def tool_error(self, hook: HookContext) -> Any: ...
    def before_final_response(self, hook: HookContext) -> Any: ...

    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        """Around the whole run, its other hooks included; those registered first are outermost."""
        return await call()

    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        """Around the call of the model; those registered first are outermost."""
        return await call(params)

    async def wrap_tool_call(self, tool_call: ToolCall, call: ToolRun) -> ToolResult:
        """Around a call of a tool or a sub-agent, its hooks included; those registered first are outermost."""
        return await call()

    def stream_chunk(self, chunk: str, params: ModelParams) -> Any:
        """A piece of the reply's text as it comes, before anybody sees it: None, or another text in its place."""


async def settled(value: Any) -> Any:
    """What it is, or comes to."""
    return await value if inspect.isawaitable(value) else value


@dataclass(frozen=True, slots=True)
class SingleHook:
    """One hook for one event; `name` is what errors call it."""

    event: HookEvent
    name: str
    hook: Hook


class Hooks:
    """What is registered with one agent, by event. Making it looks at each middleware once; running an event that
    nobody listens to costs a lookup."""

    def __init__(self, registered: Iterable[Middleware | SingleHook]) -> None:
        self._by_event: dict[HookEvent, list[tuple[str, Hook]]] = {}
        self.queries: list[tuple[str, Callable[..., Awaitable[str]]]] = []
        self.tools: list[tuple[str, Callable[..., Awaitable[ToolResult]]]] = []
        self.wrappers: list[tuple[str, Callable[..., Awaitable[ModelReply]]]] = []
        self.chunks: list[tuple[str, Callable[..., Any]]] = []
        for one in registered:
            if isinstance(one, SingleHook):
                self._by_event.setdefault(one.event, []).append((one.name, one.hook))
                continue
            for event in HookEvent:
                if event is HookEvent.STREAM_CHUNK or not _overrides(one, event.value):
                    continue
                self._by_event.setdefault(event, []).append((f"{one.name}.{event}", getattr(one, event.value)))
            if _overrides(one, "wrap_query"):
                self.queries.append((f"{one.name}.wrap_query", one.wrap_query))
            if _overrides(one, "wrap_tool_call"):
                self.tools.append((f"{one.name}.wrap_tool_call", one.wrap_tool_call))
            if _overrides(one, "wrap_model_call"):
                self.wrappers.append((f"{one.name}.wrap_model_call", one.wrap_model_call))
            if _overrides(one, "stream_chunk"):
                self.chunks.append((f"{one.name}.stream_chunk", one.stream_chunk))

    def __contains__(self, event: HookEvent) -> bool:
        return event in self._by_event

    @property
    def streams(self) -> bool:
        """Whether somebody wants to see text as it comes."""
        return bool(self.chunks) or HookEvent.STREAM_CHUNK in self._by_event

    async def run(self, seen: HookContext) -> Outcome:
        """What was decided; where all continue, with the last value that one of them brought. Raises HookError, and
        what a hook that fails the run gave."""
        brought: Any = None
        for name, hook in self._by_event.get(seen.event, ()):
            outcome = await self._asked(name, hook, seen)
            if outcome is None:
                continue
            if outcome.decision is HookDecision.FAIL:
                raise _failure(outcome.value, name)
            if outcome.decision is not HookDecision.CONTINUE:
                return outcome
            if outcome.value is not None:
                brought = outcome.value
                _replace(seen, brought)
        return Outcome(HookDecision.CONTINUE, brought)

    async def _asked(self, name: str, hook: Hook, seen: HookContext) -> Outcome | None:
        try:
            outcome = hook(seen)
            if inspect.isawaitable(outcome):
                outcome = await outcome
        except ArchonError:
            raise
        except (Exception, SystemExit) as error:
            raise _raised(name, error) from error
        if outcome is None:
            return None
        if not isinstance(outcome, Outcome):
            raise HookError(f"{name} returned {type(outcome).__name__}; an Outcome, or None", metadata={"hook": name})
        if outcome.decision is not HookDecision.CONTINUE or outcome.value is not None:
            try:
                check(seen.event, outcome.decision, outcome.value)
            except ArchonError as error:
                raise HookError(f"{name}: {error}", metadata={"hook": name}) from None
        return outcome

    def around_query(self, state: AgentState, message: str, call: QueryCall) -> QueryCall:
        """The run with all wrappers around it. What the run itself raises they let through as it is."""
        return _around([(name, partial(wrapper, state, message)) for name, wrapper in self.queries], call)

    def around_tool(self, tool_call: ToolCall, call: ToolRun) -> ToolRun:
        """The call with all wrappers around it."""
        return _around([(name, partial(wrapper, tool_call)) for name, wrapper in self.tools], call)

    def around(self, call: ModelCall) -> ModelCall:
        """The call with all wrappers around it."""
        for name, wrapper in reversed(self.wrappers):
            call = _wrapped(name, partial(_given, wrapper, call))
        return call

    async def chunk(self, text: str, params: ModelParams, seen: Callable[[], HookContext]) -> str:
        """A piece of text after all who see it. Raises HookError."""
        for name, hook in self.chunks:
            try:
                changed = await settled(hook(text, params))
            except ArchonError:
                raise
            except (Exception, SystemExit) as error:
                raise _raised(name, error) from error
            if changed is not None:
                text = str(changed)
        if HookEvent.STREAM_CHUNK in self._by_event:
            context = seen()
            context.value = text
            await self.run(context)
            text = context.value
        return text


def _around(
    wrappers: Sequence[tuple[str, Callable[..., Awaitable[T]]]], call: Callable[[], Awaitable[T]]
) -> Callable[[], Awaitable[T]]:
    passed: list[BaseException] = []

    async def innermost() -> T:
        try:
            return await call()
        except Exception as error:
            passed.append(error)
            raise

    made: Callable[[], Awaitable[T]] = innermost
    for name, wrapper in reversed(wrappers):
        made = _wrapped(name, partial(wrapper, made), passed)
    return made


def _given(
    wrapper: Callable[..., Awaitable[ModelReply]], call: ModelCall, params: ModelParams
) -> Awaitable[ModelReply]:
    return wrapper(params, call)


def _wrapped(
    name: str, call: Callable[P, Awaitable[T]], passed: Sequence[BaseException] = ()
) -> Callable[P, Awaitable[T]]:
    """What a wrapper raises by itself, and doesn't only pass on, is reported with its name."""

    async def wrapped(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await call(*arguments, **named)
        except ArchonError:
            raise
        except (Exception, SystemExit) as error:
            if any(error is one for one in passed):
                raise
            raise _raised(name, error) from error

    return wrapped


def _raised(name: str, error: BaseException) -> HookError:
    return HookError(f"{name} raised {type(error).__name__}: {error}", metadata={"hook": name})


def _overrides(middleware: object, method: str) -> bool:
    return getattr(type(middleware), method, None) is not getattr(Middleware, method)


def _failure(value: object, name: str) -> Exception:
    if isinstance(value, Exception):
        return value
    return Internal(str(value), metadata={"hook": name})


def _replace(seen: HookContext, value: Any) -> None:
    """So that the next hook sees it."""
    match value:
        case ChatMessage():
            seen.message, seen.value = value, value.content
        case ToolResult():
            seen.tool_result = value
        case dict():
            seen.arguments = value
        case str() if seen.event in (HookEvent.AFTER_TOOL, HookEvent.TOOL_ERROR):
            seen.tool_result = ToolResult(value)
        case str():
            seen.value = value
            if seen.message is not None:
                seen.message = replace(seen.message, content=value)
