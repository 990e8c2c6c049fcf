"""Middlewares for the shared memory graph: inject upstream answers, publish the final answer, describe dependencies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Any

from typing_extensions import override

from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware, maybe_await
from archon_mesh.core.awareness import awareness_chat_message, awareness_message
from archon_mesh.core.memory_item import PropagationPolicy
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.core.transcript import tool_results, transcript


class SharedMemoryMiddleware(Middleware):
    """Injects the answers of upstream agents into every model call, and publishes the agent's final answer.

    If an edge to another agent has the policy `tool_results`, it also publishes the results of the run's tool calls,
    and if one has `full_history`, its history, each together with the answer as an item of that policy.

    `graph` is a SharedMemoryGraph or a client with the same methods, awaited. The answers come from the direct
    predecessors, or with `all_ancestors` from all ancestors, both in dependency order.
    """

    def __init__(self, graph: Any, agent_id: str, *, all_ancestors: bool = False) -> None:
        self._graph = graph
        self._agent_id = agent_id
        self._all_ancestors = all_ancestors
        self._ranks: dict[str, int] = {}

    @override
    async def before_model(self, hook: HookContext) -> None:
        # One system message per source, after the system prompt. They belong to this call only, so none is repeated.
        assert hook.params is not None
        items = await self._pull()
        if items:
            hook.params.messages[:] = with_shared_context(hook.params.messages, items)

    @override
    async def query_end(self, hook: HookContext) -> None:
        if not hook.value.strip():
            return
        await maybe_await(self._graph.publish(self._agent_id, hook.value))
        if not hasattr(type(self._graph), "policies_from"):
            return
        policies: Set[PropagationPolicy] = await maybe_await(self._graph.policies_from(self._agent_id))
        for policy, content in wider_items(hook, policies):
            await maybe_await(self._graph.publish(self._agent_id, content, policy=policy))

    async def _pull(self) -> Sequence[Any]:
        if not self._all_ancestors:
            items: Sequence[Any] = await maybe_await(self._graph.pull_for(self._agent_id))
            return items
        nearest_first: Sequence[Any] = await maybe_await(self._graph.pull_for_indirect(self._agent_id))
        sources = [item.source_id for item in nearest_first]
        if not self._ranks.keys() >= set(sources):  # else the order of this run's last call still applies
            order: Sequence[str] = await maybe_await(self._graph.get_topological_order(sources))
            self._ranks = {source: rank for rank, source in enumerate(order)}
        return sorted(nearest_first, key=lambda item: self._ranks.get(item.source_id, len(self._ranks)))


class AwarenessMiddleware(Middleware):
    """Tells an agent the dependencies among its sub-agents. The graph is read at the start of each run.

    `sub_agent_ids` returns the sub-agents' ids in the graph by their keys; the message has the keys, because the tools
    of the model are named after them. `report_missing` is called with the key of one that is not there.
    """

    def __init__(
        self, graph: Any, sub_agent_ids: Callable[[], Mapping[str, str]], report_missing: Callable[[str], None]
    ) -> None:
        self._graph = graph
        self._sub_agent_ids = sub_agent_ids
        self._report_missing = report_missing
        self._text: str | None = None

    @override
    async def before_agent(self, hook: HookContext) -> None:
        keys: dict[str, list[str]] = {}
        for key, node_id in self._sub_agent_ids().items():
            if await maybe_await(self._graph.has_node(node_id)):
                keys.setdefault(node_id, []).append(key)
            else:
                self._report_missing(key)
        edges: Iterable[tuple[str, str]] = await maybe_await(self._graph.get_edges_for_nodes(list(keys)))
        named_edges = [pair for upstream, downstream in edges for pair in product(keys[upstream], keys[downstream])]
        try:
            order = await maybe_await(self._graph.get_topological_order(list(keys)))
        except ValueError:
            order = None
        self._text = awareness_message(
            named_edges, None if order is None else [key for node_id in order for key in keys[node_id]]
        )

    @override
    async def before_model(self, hook: HookContext) -> None:
        assert hook.params is not None
        if self._text:
            messages = hook.params.messages
            after_prompt = 1 if messages and messages[0].role == "system" else 0
            messages.insert(after_prompt, awareness_chat_message(self._text))


def wider_items(hook: HookContext, policies: Collection[PropagationPolicy]) -> Iterator[tuple[PropagationPolicy, str]]:
    """Yields the items beside the answer that these policies let through after a run, the narrower policy first."""
    history = hook.state.history
    results = tool_results([message for message in history if message.run_id == hook.state.run_id])
    if results and PropagationPolicy.TOOL_RESULTS in policies:
        yield PropagationPolicy.TOOL_RESULTS, f"{results}\n\nAnswer:\n{hook.value}"
    if PropagationPolicy.FULL_HISTORY in policies:
        is_last = history and history[-1].role == "assistant" and history[-1].content == hook.value
        messages = history if is_last else [*history, ChatMessage("assistant", hook.value)]
        yield PropagationPolicy.FULL_HISTORY, transcript(messages)
