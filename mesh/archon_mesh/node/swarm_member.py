"""A member of a swarm: an agent that takes the items of a work list one by one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from archon.agent import Answer, TaskContext, WorkItem
from archon.json_text import json_object
from archon.types.part import json_part
from archon.wire import text_of
from archon_mesh.core.messages import ChatMessage
from archon_mesh.planning.swarm import SwarmPart, goal_of, item_message, serve_list

DoItem = Callable[[TaskContext, ChatMessage, int, frozenset[str]], Awaitable[Answer]]
"""Does one item: the task, the message about the item, its number in the list, and the steps whose answers it does not
see."""


def swarm_part(task: TaskContext) -> SwarmPart | None:
    """Returns the part of a task in a swarm, or None. Raises InvalidArgument if its items are no list."""
    if task.allowed_tools or not task.tool_args_json:
        return None
    return SwarmPart.of(json_object(task.tool_args_json) or {})


async def serve_swarm(task: TaskContext, part: SwarmPart, do_item: DoItem) -> Answer:
    """Serves the work list of a swarm until all its items have ended, and answers with their results. Watchers see each
    item as the call of a tool. Raises the errors of `serve_list`."""
    goal, items = goal_of(task.text), list(part.items.values())
    listed = frozenset(  # the step that has listed the items: each is done without the others
        each.proto.step_id for each in task.context if (json_object(each.text) or {}).get("items") == items
    )

    async def do(item: WorkItem) -> Any:
        task.tell_tool_call(_call_id(item), f"item {item.number} of {item.total}", json.dumps({"item": item.value}))
        answer = await do_item(task, ChatMessage("user", item_message(goal, item)), item.number, listed)
        if answer.parts:
            data = [part.data_json for part in answer.parts if part.data_json]
            return json.loads(data[0]) if data else text_of([part.proto for part in answer.parts])
        return answer.text

    def tell(item: WorkItem, error: str) -> None:
        task.tell_tool_result(
            _call_id(item), f"item {item.number} of {item.total}", json.dumps(error), failed=bool(error)
        )

    results = await serve_list(task.work(part.name), part, do, tell)
    return Answer("", parts=[json_part(json.dumps(results, ensure_ascii=False))])


def _call_id(item: WorkItem) -> str:
    return f"item-{item.number}-{item.tries}"
