"""The subject of the SDK for Python: python python_subject.py agent|client. README.md has the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from archon import context
from archon.agent import AgentServer, Answer, Item, Question, TaskContext, TaskRejected
from archon.client import Client
from archon.errors import ArchonError, OperationCancelled, Unavailable
from archon.memory import MemoryGraphClient
from archon.registry import RegistryClient, Tool
from archon.run_view import RunView
from archon.server import signalled
from archon.status import error_class
from archon.tools import SharedTool, SharedToolCall, ToolClient
from archon.types import Part, TaskRef, Usage

FINAL = ("completed", "failed", "canceled")
WITHOUT_CLASS = {
    **dict.fromkeys(("CONFLICT", "POISONED", "STALE_EPOCH"), "ABORTED"),
    **dict.fromkeys(("DRAINING", "INSTANCE_LOST"), "UNAVAILABLE"),
    **dict.fromkeys(
        ("ERROR_BUDGET_EXHAUSTED", "NO_CAPACITY", "RUN_TOO_LARGE", "TOO_MANY_EVENTS"), "RESOURCE_EXHAUSTED"
    ),
    **dict.fromkeys(("PAUSE_EXPIRED", "RUN_TIMEOUT"), "DEADLINE_EXCEEDED"),
    "INVALID_PAGE_TOKEN": "INVALID_ARGUMENT",
    "NOT_HELD": "NOT_FOUND",
    "PROTOCOL_MISMATCH": "FAILED_PRECONDITION",
    "QUARANTINED": "INTERNAL",
}


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def shown(error: ArchonError) -> dict[str, Any]:
    return {
        "code": error.code,
        "reason": error.reason,
        "message": str(error),
        "kind": error.kind,
        "retry": error.retry.name,
        "retry_delay": error.retry_delay,
        "metadata": dict(error.metadata),
        "violations": [[each.field, each.description] for each in error.field_violations],
    }


def echo(task: TaskContext, name: str) -> Any:
    budget = task.budget
    limits = ("max_tokens", "max_cost_micro_usd", "max_time", "max_depth", "max_model_calls")
    values: dict[str, Any] = {
        "parts": lambda: [part.text or part.data_json or part.url for part in task.parts],
        "context": lambda: [[item.role, item.text] for item in task.context],
        "remaining": task.remaining,
        "metadata": lambda: dict(task.metadata),
        "trace": lambda: task.trace.traceparent,
        "history": lambda: [[message.role, message.text] for message in task.history],
        "checkpoint": lambda: task.checkpoint.decode(),
        "answers": lambda: {key: answer.text for key, answer in task.answers.items()},
        "attempt": lambda: task.attempt,
        "task_id": lambda: task.task_id,
        "run_id": lambda: task.run_id,
        "session_id": lambda: task.session_id,
        "targets": lambda: [target.role for target in task.delegation_targets],
        "chain": lambda: list(task.delegation_chain),
        "budget": lambda: {key: getattr(budget, key) for key in limits if getattr(budget, key, None)},
        "expected_output": lambda: task.expected_output,
    }
    return values[name]()


SIMPLE = {
    "write": lambda task, value: task.write(value),
    "block": lambda _, value: time.sleep(value),
    "publish": lambda task, value: task.publish(Item(value)),
    "save": lambda task, value: task.save(value.encode()),
    "model_call": lambda task, value: record_model_call(task, **value),
    "tool_call": lambda task, value: record_tool_call(task, **value),
}
"""The steps that do not wait, and have no value."""


async def do(task: TaskContext, kind: str, value: Any) -> Any:
    """Executes one step; a step without a value returns Ellipsis."""
    match kind:
        case "sleep":
            await asyncio.sleep(value)
        case "ignore_cancel":
            await stubbornly(value["seconds"])
            task.write(value["write"])
        case "delegate":
            return (await task.delegate(value.pop("text"), **value)).text
        case "ask":
            return await task.ask(value.pop("text"), **value)
        case "ask_secret":
            return await task.ask_secret(value)
        case "reserve":
            await task.reserve(**value)
            return True
        case "send":
            return await task.send(value["text"], value["role"])
        case "receive":
            return [message.text async for message in first(task.messages(), value)]
        case "await_update":
            await changes(task, value)
        case "echo":
            return echo(task, value)
        case _:
            SIMPLE[kind](task, value)
    return ...


async def stubbornly(seconds: float) -> None:
    waiting = asyncio.ensure_future(asyncio.sleep(seconds))
    while not waiting.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(waiting)


def record_model_call(task: TaskContext, model: str, input_tokens: int, output_tokens: int) -> None:
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    task.record_model_call(model, {}, {}, started=time.time(), seconds=0.0, usage=usage)


def record_tool_call(task: TaskContext, tool: str, arguments_json: str, result_json: str) -> None:
    arguments, result = json.loads(arguments_json), json.loads(result_json)
    task.record_tool_call(tool, arguments, result, started=time.time(), seconds=0.0)


async def changes(task: TaskContext, number: int) -> None:
    seen = task.context
    while number:
        await asyncio.sleep(0.01)
        if task.context != seen:
            seen, number = task.context, number - 1


async def first(messages: Any, number: int) -> Any:
    async for message in messages:
        yield message
        if (number := number - 1) == 0:
            return


async def handle(task: TaskContext) -> Any:
    try:
        steps = json.loads(task.text)
        assert isinstance(steps, list)
    except (ValueError, AssertionError):
        return task.text
    values: list[Any] = []
    for step in steps:
        [(kind, value)] = step.items()
        match kind:
            case "question":
                return Question(
                    value["text"], checkpoint=value["checkpoint"].encode(), input_id=value.get("input_id", "")
                )
            case "answer":
                return value
            case "json":
                return Answer(parts=[Part(data_json=json.dumps(value))])
            case "fail":
                raise failure(value)
            case "reject":
                raise TaskRejected(value)
            case "panic":
                raise RuntimeError(value)
        try:
            outcome = await do(task, kind, value)
        except OperationCancelled:
            raise
        except ArchonError as error:
            outcome = {"error": shown(error)}
        if outcome is not ...:
            values.append(outcome)
    return json.dumps(values, ensure_ascii=False)


def failure(value: dict[str, Any]) -> ArchonError:
    reason = value["reason"]
    return error_class(code_of(reason), reason)(value["message"], reason=reason, retry_delay=value.get("retry_delay"))


def code_of(reason: str) -> str:
    """The code of a reason: that of its class, or of those that have none."""
    classes = [ArchonError]
    for each in classes:
        classes += each.__subclasses__()
    known = {each.default_reason: each.code for each in reversed(classes)}
    return WITHOUT_CLASS.get(reason) or known[reason]


TOOL_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "report": {"type": "string"},
        "sleep": {"type": "number", "minimum": 0},
        "fail": {"type": "string"},
        "panic": {"type": "string"},
    },
    "required": ["text"],
    "additionalProperties": False,
}
tool_calls: Counter[str] = Counter()
"""Calls of the tools that have begun, by their text."""


async def use(arguments: Mapping[str, Any], call: SharedToolCall) -> Any:
    text = arguments["text"]
    tool_calls[text] += 1
    number = tool_calls[text]
    if "report" in arguments:
        call.report(arguments["report"])
    await asyncio.sleep(arguments.get("sleep", 0))
    if "fail" in arguments:
        raise Unavailable(arguments["fail"])
    if "panic" in arguments:
        raise RuntimeError(arguments["panic"])
    task = call.task.task_id if call.task is not None else ""
    return {"text": text, "calls": number, "task": task, "trace": context.trace()[0]}


def shared_tools() -> list[SharedTool]:
    if not os.environ.get("SUBJECT_TOOLS"):
        return []
    work = Tool("work", "Does some work.", json.dumps(TOOL_SCHEMA))
    look = replace(work, name="look", idempotent=True)
    rare = replace(work, name="rare")
    return [
        SharedTool(work, use, max_calls_per_minute=600),
        SharedTool(look, use, max_calls_per_minute=600),
        SharedTool(rare, use, max_calls_per_minute=2, max_concurrent=1),
    ]


async def agent() -> None:
    server = AgentServer("subject", handler=handle, shared_tools=shared_tools())
    stop = signalled()
    address = await server.start()
    say({"ready": {"address": address, "instance_id": server.instance_id}})
    ended = asyncio.create_task((await lines()).read())
    await asyncio.wait([ended, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
    await server.stop(server.settings.drain)


class Calls:
    """The calls of the client's mode, each a task of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.running: dict[str, asyncio.Task[None]] = {}

    async def make(self, line: dict[str, Any]) -> None:
        context.enter(replace(context.current(), traceparent=line.get("trace", "")))
        try:
            async with asyncio.timeout(line.get("deadline")):
                say({"id": line["id"], "result": await getattr(self, line["call"])(line)})
        except ArchonError as error:
            say({"id": line["id"], "error": shown(error)})
        except TimeoutError:
            say({"id": line["id"], "error": {"code": "DEADLINE_EXCEEDED", "reason": "DEADLINE_EXCEEDED"}})
        except asyncio.CancelledError:
            say({"id": line["id"], "error": {"code": "CANCELLED", "reason": "CANCELLED"}})

    async def submit(self, line: dict[str, Any]) -> Any:
        options = {key: line[key] for key in ("roles", "strategy", "timeout", "request_id") if line.get(key)}
        return {"run_id": (await self.client.submit(line["goal"], **options)).run_id}

    async def run(self, line: dict[str, Any]) -> Any:
        return await self.client.run(line["goal"], timeout=line.get("timeout"))

    async def wait(self, line: dict[str, Any]) -> Any:
        async for _ in self.client.watch(line["run_id"], durable_only=True):
            pass
        return await self.get(line)

    async def watch(self, line: dict[str, Any]) -> Any:
        last = line.get("after_seq", 0)
        async for event in self.client.watch(line["run_id"], last):
            last = event.seq or last
            say({"id": line["id"], "event": {"seq": event.seq, "kind": event.type}})
        return {"last_seq": last}

    async def converse(self, line: dict[str, Any]) -> Any:
        outputs: dict[str, str] = {}
        async with self.client.converse() as stream:
            runs = [await stream.submit(goal) for goal in line["goals"]]
            await stream.done()
            async for event in stream:
                if event.type == "run_state" and event.data["state"] in FINAL:
                    outputs[event.run_id] = state(await self.client.get(event.run_id))["output"]
        return [outputs[run.run_id] for run in runs]

    async def get(self, line: dict[str, Any]) -> Any:
        return state(await self.client.get(line["run_id"]))

    async def cancel(self, line: dict[str, Any]) -> Any:
        return state(await self.client.cancel(line["run_id"]))

    async def pause(self, line: dict[str, Any]) -> Any:
        return state(await self.client.pause(line["run_id"]))

    async def resume(self, line: dict[str, Any]) -> Any:
        return state(await self.client.resume(line["run_id"]))

    async def respond(self, line: dict[str, Any]) -> Any:
        return {"run_id": (await self.client.respond(line["run_id"], line["input_id"], line["text"])).run_id}

    async def fork(self, line: dict[str, Any]) -> Any:
        return {"run_id": (await self.client.fork(line["run_id"], after_seq=line.get("after_seq", 0))).run_id}

    async def plan(self, line: dict[str, Any]) -> Any:
        return {"tasks": [step.role for step in (await self.client.plan(line["goal"])).steps]}

    async def view(self, line: dict[str, Any]) -> Any:
        view = RunView()
        async for event in self.client.watch(line["run_id"]):
            view.apply(event)
        tasks = {
            key: {"role": task.role, "state": task.state.name, "attempts": len(task.attempts)}
            for key, task in view.tasks.items()
        }
        return {"state": view.state.name, "tasks": tasks, "output": (await self.get(line))["output"]}

    async def instances(self, line: dict[str, Any]) -> Any:
        async with RegistryClient(os.environ["ARCHON_REGISTRY"]) as registry:
            return [each.instance_id for each in await registry.resolve(line["role"])]

    async def pull(self, line: dict[str, Any]) -> Any:
        async with MemoryGraphClient(os.environ["ARCHON_MEMORY"], line["run_id"]) as memory:
            return [[item.source_id, item.content] for item in await memory.pull_for(line["role"])]

    async def use_tool(self, line: dict[str, Any]) -> Any:
        task = TaskRef(**line["task"]) if "task" in line else None
        progress: list[str] = []
        async with (
            ToolClient(os.environ["ARCHON_REGISTRY"], instance_id="tester") as tools,
            tools.lease(line["tool"], role=line.get("role", ""), task=task) as tool,
        ):
            result = await tool.execute(
                line["arguments"],
                timeout=line.get("timeout", 30.0),
                idempotency_key=line.get("idempotency_key", ""),
                on_progress=progress.append,
            )
        status, error = str(result.status), result.error_message
        return {"status": status, "content": result.content, "error": error, "progress": progress}

    async def close(self, line: dict[str, Any]) -> Any:
        await self.client.close()
        return {}


def state(run: Any) -> dict[str, Any]:
    return {"run_id": run.run_id, "state": run.state.name, "output": "\n\n".join(each.text for each in run.answers)}


async def client() -> None:
    async with Client(os.environ["ARCHON_TARGET"]) as made:
        calls = Calls(made)
        say({"ready": {}})
        reader = await lines()
        while text := await reader.readline():
            line = json.loads(text)
            if "stop" in line:
                with suppress(KeyError):
                    calls.running[line["stop"]].cancel()
            else:
                calls.running[line["id"]] = asyncio.create_task(calls.make(line))


if __name__ == "__main__":
    asyncio.run(agent() if sys.argv[1] == "agent" else client())
