"""The registry of tools: names, namespaces, and changes from several threads."""

from __future__ import annotations

import threading

import pytest

from archon.errors import AlreadyExists, ArchonError, InvalidArgument
from archon_mesh.tools import DuplicateTool, FunctionTool, ToolExecutionEngine, ToolRegistry, tool


@tool
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@tool
def upper(text: str) -> str:
    """In capitals."""
    return text.upper()


def test_registry_keeps_its_order_and_rejects_invalid_tools() -> None:
    registry = ToolRegistry([add, upper])
    assert [each.name for each in registry.list_tools()] == ["add", "upper"]
    with pytest.raises(InvalidArgument, match="not a tool"):
        registry.register_tool(3)  # type: ignore[arg-type]
    assert registry.get_tool("x") is None


def test_duplicate_tool_is_an_archon_error_and_a_value_error() -> None:
    registry = ToolRegistry([add])
    with pytest.raises(DuplicateTool, match="tool 'add' is already registered") as caught:
        registry.register_tool(add)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AlreadyExists)
    assert isinstance(caught.value, ArchonError)


async def test_tools_of_one_name_live_in_namespaces() -> None:
    registry = ToolRegistry([add])
    registry.register_tool(add, namespace="math")
    registry.register_tool(add, namespace="math.exact")
    assert registry.names == [spec.name for spec in registry.specs] == ["add", "math.add", "math.exact.add"]
    result = await ToolExecutionEngine(registry).execute_tool_call("math.add", {"a": 1})
    assert (result.content, result.metadata["tool_name"]) == (2, "math.add")


@pytest.mark.parametrize("namespace", ["not a name", "a.", ".a", "a..b", "1"])
def test_invalid_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid namespace"):
        ToolRegistry().register_tool(add, namespace=namespace)


def test_name_that_is_taken_in_its_namespace_is_a_duplicate() -> None:
    registry = ToolRegistry()
    registry.register_tool(add, namespace="math")
    with pytest.raises(DuplicateTool):
        registry.register_tool(add, namespace="math")


def test_a_namespace_gets_other_tools_and_keeps_what_stays() -> None:
    registry = ToolRegistry([upper])
    registry.set_namespace("math", [add])
    before = registry.find("math.add")
    assert before is not None
    assert (before.name, before.tool, before.spec.name, before.spec.description) == (
        "math.add",
        add,
        "math.add",
        "Adds two numbers.",
    )
    assert before.spec.parameters_schema == add.parameters_schema
    registry.set_namespace("math", [upper, add])
    assert registry.names == ["upper", "math.upper", "math.add"]
    assert registry.find("math.add") is before, "its health stays with it"
    other = FunctionTool(add.function, "add")
    registry.set_namespace("math", [other])
    assert registry.names == ["upper", "math.add"]
    assert registry.get_tool("math.add") is other
    assert [spec.name for spec in registry.specs] == registry.names
    with pytest.raises(InvalidArgument, match="invalid namespace"):
        registry.set_namespace("a..b", [add])


def test_a_registry_has_tools_by_their_whole_names() -> None:
    registry = ToolRegistry([add])
    registry.register_tool(upper, "text")
    assert "add" in registry
    assert "text.upper" in registry
    assert "upper" not in registry
    assert registry.get_tool("add") is add
    assert ToolRegistry.of(registry.registrations).names == ["add", "text.upper"]


def test_copy_is_independent() -> None:
    registry = ToolRegistry([add])
    copy = registry.copy()
    copy.register_tool(upper)
    assert (len(registry), len(copy)) == (1, 2)
    assert registry.specs == copy.specs[:1]


async def test_registry_is_changed_by_threads_while_calls_run() -> None:
    registry = ToolRegistry([add])
    engine = ToolExecutionEngine(registry)

    def register(prefix: str) -> None:
        for number in range(50):
            registry.register_tool(FunctionTool(lambda: 1, f"{prefix}{number}"))

    threads = [threading.Thread(target=register, args=(prefix,)) for prefix in "abcd"]
    for thread in threads:
        thread.start()
    for _ in range(50):
        assert (await engine.execute_tool_call("add", {"a": 1})).ok
        assert registry.specs[0].name == "add"
    for thread in threads:
        thread.join()
    assert len(registry) == len(registry.specs) == len(set(registry.names)) == 201


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"timeout": 0}, "timeout must be above 0 s"),
        ({"retries": -1}, "retries must be 0 to 10"),
        ({"rate": 0}, "rate must be 1 to 10,000"),
        ({"cache_seconds": 5}, "for idempotent tools only"),
        ({"cache_seconds": float("inf"), "idempotent": True}, "cache_seconds must be a time"),
        ({"max_input_bytes": 0}, "max_input_bytes must be at least 1"),
        ({"max_output_bytes": 0}, "max_output_bytes must be at least 1"),
        ({"alternative": "f"}, "its own alternative"),
        ({"accepts": "text/plain"}, "accepts must be a list"),
        ({"credentials": ["key"]}, "the credential 'key' is not a parameter"),
    ],
)
def test_declaration_out_of_range_is_refused(declared: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        tool(name="f", **declared)(lambda: 1)  # type: ignore[call-overload]


def test_unknown_declaration_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TypeError, match="unknown field cost; a tool has version, timeout"):
        tool(name="f", cost=1)(lambda: 1)  # type: ignore[call-overload]
