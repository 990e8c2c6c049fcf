"""Runs the registered hooks in order and checks their results."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

from archon.errors import ArchonError, Internal
from archon_mesh.agent.errors import HookError
from archon_mesh.agent.hooks.context import HookContext, ModelParams
from archon_mesh.agent.hooks.middleware import (
    Hook,
    Middleware,
    ModelCall,
    QueryCall,
    SingleHook,
    StreamChunk,
    ToolRun,
    maybe_await,
)
from archon_mesh.agent.hooks.points import HookDecision, HookEvent, Outcome, check
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import ModelReply
from archon_mesh.tools.result import ToolResult

P = ParamSpec("P")
T = TypeVar("T")


class HookRunner:
    """The hooks of one agent, by event.

    Construction inspects each middleware once; running an event without hooks costs one dictionary lookup.
    """

    def __init__(self, registered: Iterable[Middleware | SingleHook]) -> None:
        self._by_event: dict[HookEvent, list[tuple[str, Hook]]] = {}
        self._query_wrappers: list[tuple[str, Callable[..., Awaitable[str]]]] = []
        self._model_wrappers: list[tuple[str, Callable[..., Awaitable[ModelReply]]]] = []
        self._tool_wrappers: list[tuple[str, Callable[..., Awaitable[ToolResult]]]] = []
        self._chunk_hooks: list[tuple[str, Callable[..., Any]]] = []
        for item in registered:
            if isinstance(item, SingleHook):
                self._by_event.setdefault(item.event, []).append((item.name, item.hook))
            else:
                self._add_middleware(item)

    def _add_middleware(self, middleware: Middleware) -> None:
        for event in HookEvent:
            if event is not HookEvent.STREAM_CHUNK and _overrides(middleware, event.value):
                hook = getattr(middleware, event.value)
                self._by_event.setdefault(event, []).append((f"{middleware.name}.{event}", hook))
        if _overrides(middleware, "wrap_query"):
            self._query_wrappers.append((f"{middleware.name}.wrap_query", middleware.wrap_query))
        if _overrides(middleware, "wrap_model_call"):
            self._model_wrappers.append((f"{middleware.name}.wrap_model_call", middleware.wrap_model_call))
        if _overrides(middleware, "wrap_tool_call"):
            self._tool_wrappers.append((f"{middleware.name}.wrap_tool_call", middleware.wrap_tool_call))
        if _overrides(middleware, "stream_chunk"):
            self._chunk_hooks.append((f"{middleware.name}.stream_chunk", middleware.stream_chunk))

    def __contains__(self, event: HookEvent) -> bool:
        return event in self._by_event

    @property
    def wraps_query(self) -> bool:
        """Whether any middleware wraps the run."""
        return bool(self._query_wrappers)

    @property
    def wraps_tool_call(self) -> bool:
        """Whether any middleware wraps tool calls."""
        return bool(self._tool_wrappers)

    @property
    def streams(self) -> bool:
        """Whether any hook sees the text chunk by chunk."""
        return bool(self._chunk_hooks) or HookEvent.STREAM_CHUNK in self._by_event

    async def run(self, context: HookContext) -> Outcome:
        """Runs the hooks of the event and returns their decision.

        If all hooks continue, the value is the last replacement value. Raises HookError, and the error of a hook that
        fails the run.
        """
        replacement: Any = None
        for name, hook in self._by_event.get(context.event, ()):
            outcome = await self._run_hook(name, hook, context)
            if outcome is None:
                continue
            if outcome.decision is HookDecision.FAIL:
                raise _failure(outcome.value, name)
            if outcome.decision is not HookDecision.CONTINUE:
                return outcome
            if outcome.value is not None:
                replacement = outcome.value
                _apply_replacement(context, replacement)
        return Outcome(HookDecision.CONTINUE, replacement)

    async def _run_hook(self, name: str, hook: Hook, context: HookContext) -> Outcome | None:
        try:
            outcome = hook(context)
            if inspect.isawaitable(outcome):
                outcome = await outcome
        except ArchonError:
            raise
        except (Exception, SystemExit) as error:
            raise _hook_error(name, error) from error
        if outcome is None:
            return None
        if not isinstance(outcome, Outcome):
            raise HookError(
                f"{name} returned {type(outcome).__name__}, expected Outcome or None", metadata={"hook": name}
            )
        if outcome.decision is not HookDecision.CONTINUE or outcome.value is not None:
            try:
                check(context.event, outcome.decision, outcome.value)
            except ArchonError as error:
                raise HookError(f"{name}: {error}", metadata={"hook": name}) from None
        return outcome

    def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> QueryCall:
        """Returns the run inside all query wrappers. An error of the run itself passes through unchanged."""
        return _nested([(name, partial(wrapper, state, message)) for name, wrapper in self._query_wrappers], call)

    def wrap_tool_call(self, tool_call: ToolCall, call: ToolRun) -> ToolRun:
        """Returns the tool call inside all tool wrappers."""
        return _nested([(name, partial(wrapper, tool_call)) for name, wrapper in self._tool_wrappers], call)

    def wrap_model_call(self, call: ModelCall) -> ModelCall:
        """Returns the model call inside all model wrappers."""
        for name, wrapper in reversed(self._model_wrappers):
            call = _naming_errors(name, partial(_call_wrapper, wrapper, call))
        return call

    async def run_chunk_hooks(
        self, chunk: StreamChunk, params: ModelParams, new_context: Callable[[], HookContext]
    ) -> str:
        """Passes a chunk through all hooks that see chunks, and returns the resulting text. Raises HookError."""
        given = chunk
        for name, hook in self._chunk_hooks:
            try:
                replacement = await maybe_await(hook(chunk, params))
            except ArchonError:
                raise
            except (Exception, SystemExit) as error:
                raise _hook_error(name, error) from error
            if replacement is not None and given.is_text:
                chunk = StreamChunk(replacement)
        if HookEvent.STREAM_CHUNK in self._by_event:
            context = new_context()
            context.value, context.tool_call_delta = str(chunk), given.tool_call_delta
            context.thinking_delta = given.thinking_delta
            await self.run(context)
            chunk = StreamChunk(context.value)
        return str(chunk) if given.is_text else ""


def _nested(
    wrappers: Sequence[tuple[str, Callable[..., Awaitable[T]]]], call: Callable[[], Awaitable[T]]
) -> Callable[[], Awaitable[T]]:
    raised_by_call: list[BaseException] = []

    async def innermost() -> T:
        try:
            return await call()
        except Exception as error:
            raised_by_call.append(error)
            raise

    nested: Callable[[], Awaitable[T]] = innermost
    for name, wrapper in reversed(wrappers):
        nested = _naming_errors(name, partial(wrapper, nested), raised_by_call)
    return nested


def _call_wrapper(
    wrapper: Callable[..., Awaitable[ModelReply]], call: ModelCall, params: ModelParams
) -> Awaitable[ModelReply]:
    return wrapper(params, call)


def _naming_errors(
    name: str, call: Callable[P, Awaitable[T]], raised_by_call: Sequence[BaseException] = ()
) -> Callable[P, Awaitable[T]]:
    """Names the wrapper in errors that it raises itself; errors that it only passes on stay unchanged."""

    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await call(*args, **kwargs)
        except ArchonError:
            raise
        except (Exception, SystemExit) as error:
            if any(error is passed_on for passed_on in raised_by_call):
                raise
            raise _hook_error(name, error) from error

    return wrapped


def _hook_error(name: str, error: BaseException) -> HookError:
    return HookError(f"{name} raised {type(error).__name__}: {error}", metadata={"hook": name})


def _overrides(middleware: object, method: str) -> bool:
    return getattr(type(middleware), method, None) is not getattr(Middleware, method)


def _failure(value: object, name: str) -> Exception:
    if isinstance(value, Exception):
        return value
    return Internal(str(value), metadata={"hook": name})


def _apply_replacement(context: HookContext, value: Any) -> None:
    """Stores the replacement value in the context, for the next hook."""
    match value:
        case ChatMessage():
            context.message, context.value = value, value.content
        case ToolResult():
            context.tool_result = value
        case dict():
            context.arguments = value
        case str() if context.event in (HookEvent.AFTER_TOOL, HookEvent.TOOL_ERROR):
            context.tool_result = ToolResult(value)
        case str():
            context.value = value
            if context.message is not None:
                context.message = replace(context.message, content=value)
