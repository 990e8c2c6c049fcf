"""Functions become tools in the forms in which people write them: methods, pydantic's Field, local types, any name, and
results of any type."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools import FunctionTool, ToolExecutionEngine, ToolRegistry, ToolResult, tool

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]

    from archon_mesh.agent import AgentState


async def use(made: FunctionTool, **arguments: Any) -> str:
    result = await ToolExecutionEngine(ToolRegistry([made])).execute_tool_call(made.name, arguments)
    assert result.ok, result.text
    return result.text


class Desk:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @tool
    def times(self, a: int) -> int:
        """Multiplies."""
        return self.factor * a

    @tool(name="plus")
    async def add(self, a: int) -> int:
        """Adds."""
        return self.factor + a

    @tool
    @staticmethod
    def half(a: int) -> float:
        """Halves."""
        return a / 2


async def test_a_method_is_a_tool_of_its_instance() -> None:
    two, three = Desk(2), Desk(3)
    assert [await use(two.times, a=5), await use(three.times, a=5)] == ["10", "15"]
    assert await use(three.add, a=5) == "8"
    assert list(two.times.parameters_schema["properties"]) == ["a"], "no caller passes the instance"
    assert two.times(5) == 10
    assert (two.times.name, two.add.name) == ("times", "plus")
    assert await use(two.half, a=5) == "2.5"


def field(count: int = pydantic.Field(5, description="how many", ge=1)) -> str:
    return repr(count)


def factory(names: list[str] = pydantic.Field(default_factory=lambda: ["a"])) -> str:  # noqa: B008
    return repr(names)


def annotated(count: Annotated[int, pydantic.Field(ge=1)] = 5) -> str:
    return repr(count)


def annotated_default(count: Annotated[int, pydantic.Field(default=5)]) -> str:
    return repr(count)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(field, "5"), (factory, "['a']"), (annotated, "5"), (annotated_default, "5")],
    ids=["Field", "default_factory", "Annotated", "default in Annotated"],
)
async def test_a_default_reaches_the_function_however_it_is_written(
    function: Callable[..., str], expected: str
) -> None:
    made = tool(function)
    assert await use(made) == expected
    assert "required" not in made.parameters_schema


async def test_a_field_describes_and_limits_its_parameter() -> None:
    made = tool(field)
    assert made.parameters_schema["properties"]["count"] == {
        "default": 5, "description": "how many", "minimum": 1, "type": "integer",
    }  # fmt: skip
    assert "count" in (made.validate_args({"count": 0}) or "")


def underscore(_limit: int) -> str:
    return str(_limit)


def called_self(self: int) -> str:
    return str(self)


def of_a_model(schema: int, model_config: int, copy: int, json: int) -> str:
    return str(schema + model_config + copy + json)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (underscore, {"_limit": 1}, "1"),
        (called_self, {"self": 1}, "1"),
        (of_a_model, {"schema": 1, "model_config": 2, "copy": 3, "json": 4}, "10"),
    ],
)
async def test_a_parameter_may_have_any_name(
    function: Callable[..., str], arguments: dict[str, int], expected: str
) -> None:
    made = tool(function)
    assert list(made.parameters_schema["properties"]) == list(arguments)
    assert made.parameters_schema["required"] == list(arguments)
    made_by = ToolExecutionEngine(ToolRegistry([made]))
    assert (await made_by.execute_tool_call(made.name, arguments)).text == expected
    assert next(iter(arguments)) in (await made_by.execute_tool_call(made.name, {})).text, "the error names it"


async def test_a_type_that_is_imported_for_checkers_only_is_not_needed() -> None:
    def double(a: int, agent_state: AgentState | None = None) -> int:
        return 2 * a

    assert await use(tool(double), a=2) == "4"


def test_a_type_that_exists_nowhere_is_refused_with_its_parameter() -> None:
    def strange(a: Missing) -> int:
        return 1

    with pytest.raises(InvalidArgument, match=r"tool strange: the type of parameter a is not defined: .*Missing"):
        tool(strange)


async def test_types_of_the_function_around_are_known() -> None:
    class Size(enum.Enum):
        SMALL = "small"

    def order(size: Size) -> str:
        return size.name

    made = tool(order)
    assert await use(made, size="small") == "SMALL"


async def test_partials_and_callables_are_tools() -> None:
    class Adder:
        """Adds."""

        def __call__(self, a: int) -> int:
            return a + 1

    def add(a: int, b: int) -> int:
        return a + b

    assert await use(FunctionTool(functools.partial(add, b=1), "add_one"), a=2) == "3"
    assert await use(FunctionTool(Adder(), "adder"), a=2) == "3"


class Book(pydantic.BaseModel):
    title: str
    at: datetime.date = datetime.date(2026, 1, 2)


@dataclasses.dataclass
class Point:
    x: int
    book: Book | None = None


class Color(enum.Enum):
    RED = "red"


def pieces() -> Iterator[int]:
    yield from (1, 2)


async def later() -> AsyncIterator[Book]:
    yield Book(title="Emma")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Book(title="Emma"), {"title": "Emma", "at": "2026-01-02"}),
        ([Book(title="Emma")], [{"title": "Emma", "at": "2026-01-02"}]),
        (Point(1, Book(title="Emma")), {"x": 1, "book": {"title": "Emma", "at": "2026-01-02"}}),
        ({"color": Color.RED, "when": datetime.timedelta(seconds=90)}, {"color": "red", "when": "PT1M30S"}),
        ({1: (2, 3)}, {"1": [2, 3]}),
        ({"bytes": b"\xff"}, {"bytes": "_w=="}),
        (Decimal("1.10"), "1.10"),
        (Path("/a/b"), "/a/b"),
    ],
    ids=["model", "models", "dataclass", "enum and time", "tuple", "bytes", "decimal", "path"],
)
async def test_a_result_is_json_by_its_type(value: object, expected: object) -> None:
    def find() -> Any:
        return value

    async def find_later() -> Any:
        return value

    for function in (find, find_later):
        text = await use(tool(function))
        assert (text if isinstance(expected, str) else json.loads(text)) == expected


async def test_what_a_generator_yields_is_a_list() -> None:
    assert await use(tool(pieces)) == "[1, 2]"
    assert json.loads(await use(tool(later))) == [{"title": "Emma", "at": "2026-01-02"}]


async def test_bytes_that_are_text_are_text() -> None:
    def read() -> bytes:
        return "ä".encode()

    assert await use(tool(read)) == "ä"


async def test_a_value_without_a_plain_form_stays_as_it_is() -> None:
    class Strange:
        def __repr__(self) -> str:
            return "strange"

    def find() -> Any:
        return {"it": Strange()}

    assert json.loads(await use(tool(find))) == {"it": "strange"}


async def test_a_tool_result_is_passed_on() -> None:
    def find() -> ToolResult:
        return ToolResult.success({"a": 1}, {"source": "x"})

    assert json.loads(await use(tool(find))) == {"a": 1}


async def test_a_tool_of_another_place_is_no_method_of_the_class_that_has_it() -> None:
    @tool
    def double(a: int) -> int:
        return 2 * a

    class Kit:
        twice = double

    assert await use(Kit().twice, a=2) == "4"
    assert list(double.parameters_schema["properties"]) == ["a"]


async def test_a_generator_that_does_not_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_mesh.tools.plain.MAX_ITEMS", 10)

    def forever() -> Iterator[int]:
        while True:
            yield 1

    async def forever_later() -> AsyncIterator[int]:
        while True:
            yield 1

    for function in (forever, forever_later):
        result = await ToolExecutionEngine(ToolRegistry([tool(function)])).execute_tool_call(function.__name__, {})
        assert "more than 10 values" in result.error_message
