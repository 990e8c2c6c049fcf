"""Examples of tools, one per function. `python examples/tools.py` runs all of them, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

from archon_mesh.tools import Secret, Tool, ToolExecutionEngine, ToolHealth, ToolRegistry, ToolResult, tool
from archon_mesh.tools.builtin import Calculator

RATES = {"EUR": 1.0, "USD": 1.25, "JPY": 160.0}


@tool(version="2", idempotent=True, cache_seconds=300, timeout=5, rate=60)
def convert(amount: float, currency: str) -> float:
    """Converts an amount of euros to another currency."""
    return amount * RATES[currency]


class Chart(Tool):
    """A class can be created with arguments and keep what it needs between calls."""

    name = "chart"
    description = "Draws a bar for each number."
    parameters_schema = {
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
        "required": ["numbers"],
        "additionalProperties": False,
    }
    produces = ("text/plain",)
    max_output_bytes = 2_000

    def __init__(self, symbol: str) -> None:
        self._symbol = symbol

    async def execute(self, **kwargs: Any) -> ToolResult:
        """Returns one bar per line."""
        bars = [self._symbol * number for number in kwargs["numbers"]]
        return ToolResult.success("\n".join(bars), metadata={"bars": len(bars)})


async def results() -> list[Any]:
    """Whatever happens in a tool, a call returns a result."""
    engine = ToolExecutionEngine(ToolRegistry([convert, Chart("#")]))
    answer = await engine.execute_tool_call("convert", {"amount": 2, "currency": "USD"})
    drawn = await engine.execute_tool_call("chart", {"numbers": [3, 1]})
    wrong = await engine.execute_tool_call("chart", {"numbers": "three"})
    unknown = await engine.execute_tool_call("convrt", {})
    return [answer.content, drawn.metadata["bars"], wrong.error_message, unknown.error_message]


async def namespaces() -> list[str]:
    """Tools of the same name live in namespaces."""
    registry = ToolRegistry()
    registry.register_tool(convert, namespace="money")
    engine = ToolExecutionEngine(registry)
    answer = await engine.execute_tool_call("money.convert", {"amount": 1, "currency": "JPY"})
    return [*registry.names, answer.metadata["tool_name"]]


@tool(idempotent=True, alternative="saved_weather")
async def live_weather(city: str) -> str:
    """Returns the weather of a city."""
    raise ConnectionError("no route to the weather service")


@tool(idempotent=True)
async def saved_weather(city: str) -> str:
    """Returns the weather of a city as of this morning."""
    return f"sunny in {city}"


async def no_pause(seconds: float) -> None:
    """Takes the place of the pauses between retries, to make the example quick."""


async def failures() -> tuple[list[Any], ToolHealth]:
    """The alternative of a failing tool answers. A tool that keeps failing is off for a while."""
    engine = ToolExecutionEngine(ToolRegistry([live_weather, saved_weather]), sleep=no_pause)
    calls = [await engine.execute_tool_call("live_weather", {"city": "Porto"}) for _ in range(6)]
    return [calls[0].content, calls[0].metadata["tool_name"]], engine.health()["live_weather"]


@tool(dangerous=True)
def delete_file(path: str) -> str:
    """Deletes a file."""
    return f"{path} is deleted"


async def permissions() -> list[str]:
    """A dangerous tool is off unless it is allowed by its name; a denial wins over everything."""
    registry = ToolRegistry([delete_file])
    texts = []
    for allowed in (None, ["*"], ["delete_file"]):
        engine = ToolExecutionEngine(registry, permissions={"allowed": allowed})
        texts.append((await engine.execute_tool_call("delete_file", {"path": "a.txt"})).text)
    return texts


@tool(credentials=["api_key"])
def fetch(url: str, api_key: Secret) -> str:
    """Fetches a page. No model sees the parameter `api_key`."""
    return f"GET {url}?key={api_key.reveal()}"


async def ask(tool_name: str, credential: str) -> str:
    """Asks a person; a real one would use `getpass`."""
    return "k-123456"


async def credentials() -> list[str]:
    """Credentials come from a mapping, a function or a person, and are shown nowhere."""
    registry = ToolRegistry([fetch])
    engines = [
        ToolExecutionEngine(registry),
        ToolExecutionEngine(registry, credentials={"api_key": "k-123456"}),
        ToolExecutionEngine(registry, ask_credential=ask),
    ]
    return [(await engine.execute_tool_call("fetch", {"url": "/a"})).text for engine in engines]


async def calculate() -> list[Any]:
    """A tool that comes with Archon."""
    engine = ToolExecutionEngine(ToolRegistry([Calculator()]))
    answers = [await engine.execute_tool_call("calculator", {"expression": text}) for text in ("2+2", "15% of 200")]
    return [answer.content for answer in answers]


async def main() -> None:
    """Runs all examples."""
    for example in (results, namespaces, failures, permissions, credentials, calculate):
        print(f"== {example.__name__}\n{await example()}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
