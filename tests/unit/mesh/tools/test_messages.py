"""What is said about tools that are declared, registered or called in the wrong way, word for word: authors and models
read it."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry, ToolResult, tool
from archon_mesh.tools.arguments import parse_arguments, read_arguments
from archon_mesh.tools.credentials import Secret
from archon_mesh.tools.image import Image
from archon_mesh.tools.media_types import check_input, check_output
from archon_mesh.tools.output_limit import limited
from archon_mesh.tools.permissions import ToolPermissions
from archon_mesh.tools.tool import MAX_RATE, MAX_RETRIES


@tool
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def refusal(call: Callable[[], object], error: type[Exception] = InvalidArgument) -> Exception:
    """What the call raises."""
    with pytest.raises(error) as raised:
        call()
    return raised.value


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"timeout": 0}, "timeout must be above 0 s"),
        ({"timeout": math.nan}, "timeout must be above 0 s"),
        ({"retries": -1}, "retries must be 0 to 10"),
        ({"retries": MAX_RETRIES + 1}, "retries must be 0 to 10"),
        ({"rate": 0}, "rate must be 1 to 10,000 calls per minute"),
        ({"rate": MAX_RATE + 1}, "rate must be 1 to 10,000 calls per minute"),
        ({"cache_seconds": -1, "idempotent": True}, "cache_seconds must be a time in seconds"),
        ({"cache_seconds": math.inf, "idempotent": True}, "cache_seconds must be a time in seconds"),
        ({"cache_seconds": 5}, "cache_seconds is for idempotent tools only"),
        ({"max_input_bytes": 0}, "max_input_bytes must be at least 1"),
        ({"max_output_bytes": 0}, "max_output_bytes must be at least 1"),
        ({"alternative": "f"}, "a tool cannot be its own alternative"),
        ({"accepts": "text/plain"}, "accepts must be a list of texts"),
        ({"produces": "text/plain"}, "produces must be a list of texts"),
        ({"credentials": "key"}, "credentials must be a list of texts"),
        ({"credentials": ["key"]}, "the credential 'key' is not a parameter of the function"),
    ],
)
def test_a_declaration_that_is_refused(declared: dict[str, Any], message: str) -> None:
    assert str(refusal(lambda: tool(name="f", **declared)(lambda: 1))) == f"tool f: {message}"


@pytest.mark.parametrize(
    "declared",
    [
        {"timeout": 0.001, "retries": 0, "rate": 1, "max_input_bytes": 1, "max_output_bytes": 1},
        {"timeout": math.inf, "retries": MAX_RETRIES, "rate": MAX_RATE, "alternative": "g"},
        {"cache_seconds": 0.5, "idempotent": True},
        {"cache_seconds": 0, "idempotent": False},
    ],
)
def test_a_declaration_within_its_limits_is_accepted(declared: dict[str, Any]) -> None:
    made = tool(name="f", **declared)(lambda: 1)
    assert {name: getattr(made, name) for name in declared} == declared


def test_what_cannot_be_cached() -> None:
    cached: dict[str, Any] = {"cache_seconds": 5, "idempotent": True}

    class Nosy(Tool):
        name, description, idempotent, cache_seconds = "nosy", "", True, 5.0

        async def execute(self, **kwargs: Any) -> None: ...

    nosy = Nosy()
    nosy.wants_state = True
    assert str(refusal(lambda: ToolRegistry([nosy]))) == (
        "tool nosy: a result that depends on agent_state cannot be cached"
    )
    nosy.wants_state, nosy.wants_engine = False, True
    assert str(refusal(lambda: ToolRegistry([nosy]))) == (
        "tool nosy: a result that depends on other tools cannot be cached"
    )
    assert tool(name="f", **cached)(lambda: 1).cache_seconds == 5


def test_functions_that_are_no_tools() -> None:
    assert (
        str(refusal(lambda: tool(name="not a name")(lambda: 1))) == "invalid tool name 'not a name': not an identifier"
    )
    assert str(refusal(lambda: tool(lambda: 1))) == "invalid tool name '<lambda>': not an identifier"
    assert str(refusal(lambda: tool(name="many")(lambda *many: 1))) == (
        "tool many: parameter many cannot be passed by name"
    )
    assert str(refusal(lambda: ToolRegistry([3]))) == (  # type: ignore[list-item]
        "not a tool: 3; derive from Tool, or decorate a function with @tool"
    )
    assert str(refusal(lambda: ToolRegistry().register_tool(add, "a..b"))) == (
        "invalid namespace 'a..b': expected identifiers, separated by dots"
    )
    assert str(refusal(lambda: ToolPermissions.of({"allowed": "add"}), TypeError)) == (
        "expected a list of names of tools, got 'add'"
    )
    assert str(refusal(lambda: pickle.dumps(Secret("x")), TypeError)) == "a Secret cannot be pickled"
    secret = Secret("x")
    assert copy.copy(secret) is copy.deepcopy(secret) is secret


# Arguments


def test_arguments_that_cannot_be_read() -> None:
    assert parse_arguments(None) == parse_arguments(" ") == {}
    error = refusal(lambda: parse_arguments("{"))
    assert str(error).startswith("invalid arguments: not JSON: Expecting")
    assert getattr(error, "kind", "") == "tool.invalid_parameters"
    error = refusal(lambda: parse_arguments("[1]"))
    assert str(error) == "invalid arguments: expected a JSON object, got list"
    assert getattr(error, "kind", "") == "tool.invalid_parameters"
    circle: dict[str, Any] = {}
    circle["self"] = circle
    error = refusal(lambda: read_arguments(circle, "add", 100))
    assert str(error) == "invalid arguments: not JSON: Circular reference detected"
    assert getattr(error, "kind", "") == "tool.invalid_parameters"


def test_arguments_are_as_large_as_their_json_in_bytes() -> None:
    assert read_arguments({"b": 1, "a": "é"}, "add", 16) == ({"b": 1, "a": "é"}, '{"a":"é","b":1}')
    error = refusal(lambda: read_arguments({"b": 1, "a": "é"}, "add", 15))
    assert str(error) == "arguments of 16 bytes are too large for tool add: its limit is 15 bytes"
    assert getattr(error, "kind", "") == "tool.resource_exhaustion"
    error = refusal(lambda: read_arguments("{" + " " * 2_000, "add", 1_000))
    assert str(error) == "arguments of 2,001 bytes are too large for tool add: its limit is 1,000 bytes"
    assert read_arguments('{"a": 1}', "add", 8) == ({"a": 1}, '{"a":1}')
    assert read_arguments({}, "add", 1) == ({}, "{}")
    value = object()
    assert read_arguments({"a": value}, "add", 100) == ({"a": value}, None), "a hook's value has no JSON form"
    keys = {"a": {(1, 2): value}}
    assert read_arguments(keys, "add", 100) == (keys, None), "nor have its keys"


def test_arguments_that_do_not_fit_the_schema() -> None:
    error = refusal(lambda: add.convert_args({"a": "x", "c": 1}))
    assert str(error) == (
        "invalid arguments for tool add: a: Input should be a valid integer, unable to parse string as an integer; "
        "c: Extra inputs are not permitted"
    )
    assert [each.field for each in getattr(error, "field_violations", ())] == ["a", "c"]
    assert getattr(error, "kind", "") == "tool.invalid_parameters"


class Upper(Tool):
    name = "upper"
    description = "In capitals."
    parameters_schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "in": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "required": ["text"],
    }

    async def execute(self, **kwargs: Any) -> str:
        return str(kwargs["text"]).upper()


def test_arguments_that_do_not_fit_a_json_schema() -> None:
    assert Upper().validate_args({"text": "a"}) is None
    assert Upper().convert_args({"text": "a"}) == {"text": "a"}
    assert Upper().validate_args({"in": {"n": "x"}}) == (
        "invalid arguments for tool upper: in.n: 'x' is not of type 'integer'; (all): 'text' is a required property"
    )
    error = refusal(lambda: Upper().convert_args({}))
    assert str(error) == "invalid arguments for tool upper: (all): 'text' is a required property"
    assert getattr(error, "kind", "") == "tool.invalid_parameters"


# Results


def test_metadata_that_is_refused() -> None:
    assert str(refusal(lambda: ToolResult.success(1, "text"))) == (  # type: ignore[arg-type]
        "invalid metadata: expected a mapping, got str"
    )
    assert str(refusal(lambda: ToolResult.success(1, {1: 2}))) == (  # type: ignore[dict-item]
        "invalid metadata: the key 1 of metadata is not a text"
    )
    assert str(refusal(lambda: ToolResult.success(1, {"a": [1, {"b": {1}}]}))) == (
        "invalid metadata: metadata['a'][1]['b'] is set, not plain JSON data"
    )
    assert str(refusal(lambda: ToolResult.success(1, {"a": [1, {2: 3}]}))) == (
        "invalid metadata: the key 2 of metadata['a'][1] is not a text"
    )


def test_metadata_is_at_most_twenty_levels_deep() -> None:
    deep: Any = {"end": 1}
    for _ in range(19):
        deep = {"in": deep}
    assert ToolResult.success(1, deep).metadata == deep
    assert str(refusal(lambda: ToolResult.success(1, {"in": deep}))) == (
        "invalid metadata: nested more than 20 levels deep"
    )


def test_files_of_other_types() -> None:
    accepts = ["image/*", "application/pdf"]
    for accepted in ("data:image/png;base64,AA", "text", "data: nothing", Image(b"x"), ["data:application/pdf,x"], 1):
        check_input("look", accepts, {"file": accepted})
    for refused, name in (("data:,x", "text/plain"), (("data:video/mp4,x",), "video/mp4"), ("data:imagex/png,", None)):
        message = (
            f"invalid arguments for tool look: {name or 'imagex/png'} is not accepted; image/*, application/pdf is"
        )
        error = refusal(lambda file=refused: check_input("look", accepts, {"file": file}))  # type: ignore[misc]
        assert (str(error), getattr(error, "kind", "")) == (message, "tool.invalid_parameters")
    check_input("look", ["*/*"], {"file": Image(b"x", "image/gif")})


def test_results_of_other_types() -> None:
    check_output("draw", ["*/*"], {"a": 1})
    check_output("draw", ["application/vnd.x+json"], "a text")
    for content, produces, name in (
        ("a text", ["image/png", "image/gif"], "text/plain"),
        ({"a": 1}, ["text/plain"], "application/json"),
        ([Image(b"x", "image/gif")], ["image/png"], "image/gif"),
    ):
        error = refusal(lambda c=content, p=produces: check_output("draw", p, c))  # type: ignore[misc]
        assert str(error) == f"tool draw returned {name}; it declares {', '.join(produces)}"
        assert getattr(error, "kind", "") == "tool.crash"


def test_a_result_that_is_not_json() -> None:
    circle: list[Any] = []
    circle.append(circle)
    error = refusal(lambda: limited(circle, None))
    assert str(error) == "the result is not a JSON value: Circular reference detected"
    assert getattr(error, "kind", "") == "tool.crash"


# The log


async def test_what_is_logged_about_calls(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def crash() -> None:
        """Raises."""
        raise ValueError("boom")

    @tool
    async def refuse() -> None:
        """Raises a typed error."""
        raise InvalidArgument("not this")

    @tool
    async def chatter() -> ToolResult:
        """Returns much metadata."""
        return ToolResult.success("x", {"m": "y" * 20_000})

    engine = ToolExecutionEngine(ToolRegistry([crash, refuse, chatter]))
    for name in ("crash", "refuse", "chatter"):
        await engine.execute_tool_call(name)
    first, *others = [record.getMessage() for record in caplog.records]
    assert first.startswith("tool crash failed: ValueError: boom\nTraceback (most recent call last):\n")
    assert others == [
        "tool refuse failed: not this",
        "tool chatter: metadata of 20009 bytes left out; the limit is 16384",
    ]
