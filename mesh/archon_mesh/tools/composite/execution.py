"""One call of a composite tool: its context, the tasks of its nodes, and its compensation if it is aborted.

Each node has a task that waits for the nodes before it. The first node that aborts cancels the others; then completed
calls are compensated, the latest first. A call that is cancelled from outside cancels and awaits its nodes, and
compensates nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, ResourceExhausted
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_PERMISSION, TOOL_RESOURCES, TOOL_TIMEOUT
from archon_mesh.core.media import Media
from archon_mesh.tools.composite.nodes import Edge, Graph, Node
from archon_mesh.tools.composite.values import REQUIRED, Argument, Item, Missing, Reference, Result, When, at_path
from archon_mesh.tools.failures import failed
from archon_mesh.tools.person_time import work_time
from archon_mesh.tools.result import ToolOutcome, ToolResult
from archon_mesh.tools.retries import BASE, MAX_PAUSE
from archon_mesh.tools.tool import Tool

COMPENSATION_SECONDS: Final = 60.0
"""Seconds of all compensations of a call together."""

MAX_PARTIAL_BYTES: Final = 8 * 1024
"""Bytes of the partial results of an aborted call, as JSON; a result that does not fit is left out."""

_NO_RETRY: Final = (INVALID_PARAMETERS, TOOL_PERMISSION)

Call = Callable[[Tool, Mapping[str, Any]], Awaitable[ToolOutcome]]


class _State(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(slots=True)
class _Context:
    """The context of one call of a composite tool; no other call sees it."""

    arguments: Mapping[str, Any]
    results: dict[str, Any] = field(default_factory=dict)
    states: dict[str, _State] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    completed: list[tuple[Node, Any, Any]] = field(default_factory=list)
    """Calls that succeeded, with item and result, in the order of their completion."""


class _Skipped(Exception):
    """An input refers to the result of a node that has none."""


class _Aborted(Exception):
    """A node failed, and ends the composite."""

    def __init__(self, node_id: str, failure: ToolResult) -> None:
        super().__init__(node_id)
        self.node_id = node_id
        self.failure = failure


class Execution:
    """Runs a graph once. `call` calls a tool through the engine; `seconds` limits all nodes together."""

    def __init__(
        self,
        graph: Graph,
        arguments: Mapping[str, Any],
        call: Call,
        *,
        seconds: float,
        parallel: int,
        sleep: Callable[[float], Awaitable[object]],
        random: Callable[[], float],
    ) -> None:
        self._graph = graph
        self._context = _Context(arguments)
        self._call = call
        self._seconds = seconds
        self._slots = asyncio.Semaphore(parallel)
        self._sleep = sleep
        self._random = random
        self._ended = {name: asyncio.Event() for name in graph.nodes}
        self._incoming: dict[str, list[Edge]] = {name: [] for name in graph.nodes}
        for edge in graph.edges():
            self._incoming[edge.target].append(edge)
        self._aborted: _Aborted | None = None

    async def run(self, name: str) -> ToolResult:
        """Returns the outputs, or the error of an aborted call."""
        try:
            async with work_time(self._seconds), asyncio.TaskGroup() as group:
                for node in self._graph.nodes.values():
                    group.create_task(self._run_node(node), name=f"node {node.id} of {name}")
        except* _Aborted:
            pass
        except* TimeoutError:
            self._abort("", DeadlineExceeded(f"no result within {self._seconds:g} s", kind=TOOL_TIMEOUT))
        if self._aborted is None:
            try:
                return ToolResult.success(self._outputs(), self._metadata())
            except InvalidArgument as error:
                self._abort("", error)
        return await self._failed()

    async def _run_node(self, node: Node) -> None:
        for edge in self._incoming[node.id]:
            await self._ended[edge.source].wait()
        context = self._context
        try:
            if self._is_active(node):
                result = await (self._each(node) if node.for_each is not None else self._once(node, None))
                if context.states.get(node.id) is not _State.FAILED:
                    context.results[node.id], context.states[node.id] = result, _State.DONE
            else:
                context.states[node.id] = _State.SKIPPED
        except* _Skipped:
            context.states[node.id] = _State.SKIPPED
        self._ended[node.id].set()

    def _is_active(self, node: Node) -> bool:
        incoming = self._incoming[node.id]
        active = [self._is_edge_active(edge) for edge in incoming]
        follows = not incoming or (all(active) if node.join == "all" else any(active))
        return follows and (node.when is None or self._holds(node.when))

    def _is_edge_active(self, edge: Edge) -> bool:
        target = self._graph.nodes[edge.target]
        state = self._context.states[edge.source]
        has_default = any(
            isinstance(each, Result) and each.node == edge.source and each.default is not REQUIRED
            for each in target.references
        )
        reads = any(isinstance(each, Result) and each.node == edge.source for each in target.references)
        # A failed node that was to be continued lets those pass that do not need its result.
        passes = state is _State.DONE or (state is _State.FAILED and not reads) or has_default
        return passes and (edge.when is None or self._holds(edge.when))

    def _holds(self, when: When) -> bool:
        try:
            value = self._resolved(when.value, None)
        except (Missing, _Skipped):
            return when.holds(None, exists=False)
        return when.holds(value, exists=True)

    async def _each(self, node: Node) -> list[Any]:
        assert node.for_each is not None
        try:
            items = self._resolved(node.for_each, None)
        except Missing as error:
            return self._handled(node, _invalid(node, error)) or []
        if not isinstance(items, (list, tuple)):
            wrong = InvalidArgument(f"for_each needs a list, got {type(items).__name__}", kind=INVALID_PARAMETERS)
            return self._handled(node, failed(wrong).result) or []
        if len(items) > node.max_items:
            error_text = f"for_each got {len(items):,} items; at most {node.max_items:,} are allowed"
            return self._handled(node, failed(ResourceExhausted(error_text, kind=TOOL_RESOURCES)).result) or []
        slots = asyncio.Semaphore(node.parallel)

        async def bounded(item: Any) -> Any:
            async with slots:
                return await self._once(node, item)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(bounded(item), name=f"item of {node.id}") for item in items]
        if node.on_error == "continue":
            self._context.states.pop(node.id, None)  # failed items are None in a list that is complete
        return [task.result() for task in tasks]

    async def _once(self, node: Node, item: Any) -> Any:
        """Returns the content of one call; None if it failed, and the node continues."""
        try:
            arguments = {name: self._resolved(value, item) for name, value in node.inputs.items()}
        except Missing as error:
            return self._handled(node, _invalid(node, error))
        attempts = node.attempts if node.on_error == "retry" else 1
        for number in range(attempts):
            async with self._slots:
                result = (await self._call(node.tool, arguments)).result
            if result.ok:
                self._context.completed.append((node, item, result.content))
                return result.content
            if result.metadata.get("kind") in _NO_RETRY or number + 1 == attempts:
                break
            await self._sleep(self._random() * min(MAX_PAUSE, BASE * 2.0**number))
        return self._handled(node, result)

    def _handled(self, node: Node, failure: ToolResult) -> Any:
        if node.on_error == "continue":
            self._context.states[node.id] = _State.FAILED
            self._context.errors[node.id] = failure.error_message[:500]
            return None
        self._aborted = self._aborted or _Aborted(node.id, failure)
        raise self._aborted

    def _abort(self, node_id: str, error: ArchonError) -> None:
        if self._aborted is None:
            self._aborted = _Aborted(node_id, failed(error).result)

    def _resolved(self, value: Any, item: Any) -> Any:
        """Returns an input with its references replaced. Raises Missing, and _Skipped for a node without a result."""
        if isinstance(value, (Argument, Result, Item)):
            return self._referenced(value, item)
        if isinstance(value, Mapping):
            return {name: self._resolved(each, item) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._resolved(each, item) for each in value]
        return value

    def _referenced(self, reference: Reference, item: Any) -> Any:
        context = self._context
        try:
            match reference:
                case Argument():
                    what = f"argument {reference.name!r}"
                    if reference.name not in context.arguments:
                        raise Missing(f"{what} is missing")
                    return at_path(context.arguments[reference.name], reference.path, what)
                case Result():
                    if reference.node not in context.results:
                        raise _Skipped
                    return at_path(context.results[reference.node], reference.path, f"the result of {reference.node}")
                case Item():
                    return at_path(item, reference.path, "the item")
        except (Missing, _Skipped):
            if reference.default is REQUIRED:
                raise
            return reference.default

    def _outputs(self) -> Any:
        if self._graph.outputs is None:
            return {name: self._context.results[name] for name in self._graph.leaves() if name in self._context.results}
        outputs = {}
        for name, reference in self._graph.outputs.items():
            try:
                outputs[name] = self._resolved(reference, None)
            except _Skipped:
                outputs[name] = None
        return outputs

    def _metadata(self) -> dict[str, Any]:
        skipped = [name for name, state in self._context.states.items() if state is _State.SKIPPED]
        return {"errors": dict(self._context.errors), "skipped": skipped}

    async def _failed(self) -> ToolResult:
        assert self._aborted is not None
        node_id, failure = self._aborted.node_id, self._aborted.failure
        compensations = await self._compensate()
        done = [name for name, state in self._context.states.items() if state is _State.DONE]
        message = f"node {node_id} failed: {failure.error_message}" if node_id else failure.error_message
        message += f"; completed: {', '.join(done) or 'none'}"
        undone = [each["node"] for each in compensations if each["ok"]]
        kept = [f"{each['node']} ({each['error']})" for each in compensations if not each["ok"]]
        message += f"; undone: {', '.join(undone)}" if undone else ""
        message += f"; not undone: {', '.join(kept)}" if kept else ""
        metadata = {
            **{key: failure.metadata[key] for key in ("code", "reason", "kind") if key in failure.metadata},
            **self._metadata(),
            "failed_node": node_id,
            "partial_results": self._partial_results(),
            "compensations": compensations,
        }
        return ToolResult(None, failure.status, message, metadata)

    def _partial_results(self) -> dict[str, Any]:
        partial: dict[str, Any] = {}
        left = MAX_PARTIAL_BYTES
        for name, result in self._context.results.items():
            if any(True for _ in Media.among(result)):
                continue
            text = json.dumps(result, default=str)
            left -= len(text)
            if left >= 0:
                partial[name] = json.loads(text)
        return partial

    async def _compensate(self) -> list[dict[str, Any]]:
        """Undoes completed calls, the latest first. Failures are reported; they do not hide the first one."""
        reports = []
        loop = asyncio.get_running_loop()
        end = loop.time() + COMPENSATION_SECONDS
        for node, item, content in reversed(self._context.completed):
            if node.compensation is None:
                continue
            self._context.results[node.id] = content  # of this item, if there are several
            error = ""
            try:
                async with asyncio.timeout_at(end):
                    inputs = {name: self._resolved(value, item) for name, value in node.compensation.inputs.items()}
                    outcome = await self._call(node.compensation.tool, inputs)
                    error = "" if outcome.result.ok else outcome.result.error_message
            except TimeoutError:
                error = f"the compensations took longer than {COMPENSATION_SECONDS:g} s"
            except (Missing, _Skipped) as missing:
                error = str(missing) or "an input refers to a node without a result"
            reports.append({"node": node.id, "ok": not error, "error": error[:500]})
        return reports


def _invalid(node: Node, error: Missing) -> ToolResult:
    return failed(InvalidArgument(f"node {node.id}: {error}", kind=INVALID_PARAMETERS)).result
