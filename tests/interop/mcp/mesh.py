"""Roles that the conformance suite of MCP can call through a gateway: named as its tools, with `-` for `_`."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from archon import AgentServer, TaskContext
from archon.agent import Answer, Question
from archon.errors import FailedPrecondition, Internal
from archon.registry import Profile, Tool
from archon.tools.shared_tool import SharedTool, SharedToolCall
from archon.types.part import Part
from tests.fixtures.http_gateway import GatewayMesh, gateway_mesh

PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV: Final = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
CONFIRM: Final = json.dumps(
    {"type": "object", "properties": {"confirm": {"type": "boolean"}, "name": {"type": "string"}}}
)

Handler = Callable[[TaskContext], Coroutine[Any, Any, Answer]]


def says(*parts: Part) -> Handler:
    """Returns a handler that answers with these parts."""

    async def handle(task: TaskContext) -> Answer:
        return Answer(parts=list(parts))

    return handle


async def greet(task: TaskContext) -> Answer:
    return Answer(f"Hello, {task.text}!")


async def compute(task: TaskContext) -> Answer:
    await asyncio.sleep(float(task.text.split()[0]))
    return Answer(f"computed {task.text}")


async def fail(task: TaskContext) -> Answer:
    await asyncio.sleep(1.0)
    raise FailedPrecondition("This tool intentionally returns an error for testing")


async def crash(task: TaskContext) -> Answer:
    await asyncio.sleep(1.0)
    raise Internal("the job has crashed")


async def confirm(task: TaskContext) -> Answer:
    given = await task.ask_question(Question(f"Delete {task.text}?", input_id="confirm", schema_json=CONFIRM))
    return Answer(f"deleted: {given.text}")


async def ask_twice(task: TaskContext) -> Answer:
    questions = [Question(f"Question {name}?", input_id=name, schema_json=CONFIRM) for name in ("first", "second")]
    answers = await asyncio.gather(*map(task.ask_question, questions))
    return Answer(" and ".join(answer.text for answer in answers))


async def simple(arguments: Mapping[str, Any], call: SharedToolCall) -> str:
    return "This is a simple text response for testing."


ROLES: Final[Mapping[str, tuple[Handler, str]]] = {
    "greet": (greet, "{name}"),
    "slow-compute": (compute, "{seconds} {label}"),
    "failing-job": (fail, "now"),
    "protocol-error-job": (crash, "now"),
    "confirm-delete": (confirm, "{filename}"),
    "multi-input": (ask_twice, "now"),
    "test-image-content": (says(Part(raw=PNG, media_type="image/png")), "now"),
    "test-audio-content": (says(Part(raw=WAV, media_type="audio/wav")), "now"),
    "test-error-handling": (fail, "now"),
}


@asynccontextmanager
async def conformance_mesh(folder: Path) -> AsyncIterator[GatewayMesh]:
    """A mesh with these roles behind a gateway, whose calls need no token."""
    async with gateway_mesh(folder, requests_per_second=10_000.0) as mesh, AsyncExitStack() as stack:
        for role, (handler, template) in ROLES.items():
            shared = [SharedTool(Tool("test_simple_text", "Says a text."), simple)] if role == "greet" else ()
            agent = AgentServer(
                role,
                handler=handler,
                max_tasks=50,
                profile=Profile(prompt_template=template),
                shared_tools=shared,
                settings=mesh.mesh.agent_settings(),
            )
            await stack.enter_async_context(agent)
        yield mesh
