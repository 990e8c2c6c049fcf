"""Templates in workflows: jinja2's sandbox, so that a template reads the values that it is given and changes nothing.

A template has expressions, `{% if %}` and `{% for %}`, and some filters and methods. One that only reads values is
rendered in this process; any other in a process of its own, whose limits of time and memory end it. Values are data:
a template in a result is never rendered.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.json_text import json_or
from archon_mesh.bounded_cache import BoundedCache
from archon_mesh.limited import LimitedProcesses, LimitExceeded
from archon_mesh.workflows.evaluate import MAX_RENDERED, compiled, environment, evaluate

MAX_SOURCE: Final = 20_000
"""Characters of one template."""

MAX_DEPTH: Final = 100
"""Expressions, conditions and loops within each other."""

CPU_SECONDS: Final = 2.0
"""CPU time of one template."""

SECONDS: Final = 20.0
"""Time of one template, on a machine that has little CPU time for it; and of all templates of one expansion."""

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""Address space of the process that renders a template."""

PROCESSES: Final = 4
"""Templates that are rendered at the same time. Others wait."""

MAX_REMEMBERED: Final = 16 * 1024 * 1024
"""Bytes of results that are remembered: an expansion fills the templates of earlier ones again."""

_PLAIN: Final = "Template Output TemplateData If Name Const CondExpr Getattr Getitem Compare Operand And Or Not"
_PLAIN_NODES: Final = frozenset(_PLAIN.split())
"""Nodes that cost no more than the values that they read; comparisons and items only with constants."""

_OTHERS: Final = "For Tuple List Dict Pair Keyword Filter Test Call Slice Add Sub Mul Div FloorDiv Mod Pow Neg Pos"
_NODES: Final = _PLAIN_NODES | frozenset(_OTHERS.split())

_LIMITS: Final = {
    "cpu": "the template takes more than {cpu:g} s of CPU time",
    "time": "the template takes more than {seconds:g} s",
    "memory": f"the template takes more than {MEMORY_BYTES >> 20} MiB of memory",
    "files": "a template writes no files",
    "reply": f"a template gives more than {MAX_RENDERED:,} characters",
}

_processes: Final = LimitedProcesses("archon_mesh.workflows.evaluate", memory_bytes=MEMORY_BYTES, at_once=PROCESSES)


class _Expansion:
    """The time that an expansion takes: CPU time of its thread, and of processes that work for it."""

    def __init__(self) -> None:
        self.rendering = 0.0
        self._began = time.thread_time()

    def check(self) -> None:
        """Raises InvalidArgument if the expansion has taken more than SECONDS."""
        if self.rendering + time.thread_time() - self._began > SECONDS:
            raise InvalidArgument(f"the templates of the workflow take more than {SECONDS:g} s")


_expansion: Final[ContextVar[_Expansion]] = ContextVar("archon_workflow_expansion")


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was checked. `names` are the values that it reads; `expression` is its only expression, None if
    it is a text; `is_plain` says that it only reads values."""

    source: str
    names: frozenset[str]
    expression: str | None
    is_plain: bool

    def render(self, values: Mapping[str, Any]) -> str:
        """Returns the text. Raises InvalidArgument if a value is missing, or a limit is exceeded; and the errors of
        LimitedProcesses. May block for seconds unless it is plain."""
        return str(self._result(None, values))

    def value(self, values: Mapping[str, Any]) -> Any:
        """Returns the text, or, of a template that is one expression, its value with its type. Raises as `render`."""
        return self._result(self.expression, values)

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Returns whether the value is true, as `evaluate.truth` says. Raises as `render`, and InvalidArgument for a
        text that is neither true nor false."""
        return bool(self._result(self.expression, values, is_condition=True))

    def _result(self, expression: str | None, values: Mapping[str, Any], *, is_condition: bool = False) -> Any:
        if self.is_plain:
            return evaluate(self.source, expression, values, is_condition=is_condition, is_computed=False)
        read = {name: values[name] for name in self.names if name in values}
        try:
            asked = {"source": self.source, "expression": expression, "values": read, "is_condition": is_condition}
            request = json.dumps(asked, default=str)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgument(f"a value of a template cannot be read: {error}") from None
        if (reply := _remembered.get(request)) is None:
            reply = _render(request)
            _remembered.add(request, reply)
        return json.loads(reply)


@contextmanager
def one_expansion() -> Iterator[Callable[[], None]]:
    """Holds all templates that are rendered within to SECONDS together. Yields a function that raises InvalidArgument
    once they are over."""
    expansion = _Expansion()
    token = _expansion.set(expansion)
    try:
        yield expansion.check
    finally:
        _expansion.reset(token)


def _render(request: str) -> str:
    """Returns the result of a request as JSON, from another process."""
    expansion = _expansion.get(None) or _Expansion()
    expansion.check()
    began = [math.inf]
    try:
        reply: str = _processes.call(
            request,
            cpu_seconds=CPU_SECONDS,
            seconds=SECONDS,
            on_start=lambda: began.append(time.monotonic()),  # others may have all processes until then
        )
    except LimitExceeded as error:
        raise InvalidArgument(_LIMITS[error.limit].format(cpu=CPU_SECONDS, seconds=SECONDS)) from None
    finally:
        expansion.rendering += max(0.0, time.monotonic() - began[-1])
    return reply


class _Remembered:
    """Results of requests, up to MAX_REMEMBERED bytes: those used longest ago make room for others."""

    def __init__(self) -> None:
        self._replies: BoundedCache[bytes, str] = BoundedCache(max_bytes=MAX_REMEMBERED)
        self._lock = threading.Lock()

    def get(self, request: str) -> str | None:
        """Returns the result of a request, or None."""
        with self._lock:
            return self._replies.get(_key(request))

    def add(self, request: str, reply: str) -> None:
        """Adds a result."""
        with self._lock:
            self._replies.put(_key(request), reply, len(reply) + 200)  # with its key


def _key(request: str) -> bytes:
    return hashlib.sha256(request.encode()).digest()


_remembered: Final = _Remembered()


@lru_cache(maxsize=2_000)
def template(source: str) -> Template:
    """Checks a template. Raises InvalidArgument if it is invalid, or has more than expressions, `if` and `for`; and
    FailedPrecondition without jinja2."""
    if len(source) > MAX_SOURCE:
        raise InvalidArgument(f"a template has {len(source):,} characters, at most {MAX_SOURCE:,}")
    sandbox = environment()
    from jinja2 import TemplateSyntaxError

    try:
        tree = sandbox.parse(source)
        names, is_plain = _checked(tree)
        compiled(source)
        expression = _only_expression(source, tree)
    except TemplateSyntaxError as error:
        raise InvalidArgument(f"invalid template: {error.message}") from None
    except RecursionError:
        raise InvalidArgument("invalid template: nested too deep") from None
    except Exception as error:  # noqa: BLE001 - the compilers of jinja2 and Python refuse texts in many ways
        raise InvalidArgument(f"invalid template: {str(error)[:300]}") from None
    return Template(source, frozenset(names), expression, is_plain)


def _checked(tree: Any) -> tuple[set[str], bool]:
    """Returns the names that a template reads, and whether it only reads values. Raises TemplateSyntaxError for
    forbidden nodes."""
    from jinja2 import TemplateSyntaxError

    names: set[str] = set()
    is_plain = True
    nodes: list[tuple[Any, frozenset[str], int]] = [(tree, frozenset({"range"}), 0)]
    while nodes:
        node, known, depth = nodes.pop()
        if depth > MAX_DEPTH:
            raise TemplateSyntaxError("nested too deep", getattr(node, "lineno", 1))
        _check_node(node)
        kind = type(node).__name__
        is_plain = is_plain and kind in _PLAIN_NODES and _reads_constants(node)
        if kind == "Name" and node.name not in known:
            names.add(node.name)
        if kind == "For":
            # The item is known in the body and its condition, not in the list or in `else`.
            inner = known | _targets(node.target)
            nodes += [(node.iter, known, depth + 1), (node.target, inner, depth + 1)]
            nodes += [(each, inner | {"loop"}, depth + 1) for each in node.body]
            nodes += [(each, inner, depth + 1) for each in ([node.test] if node.test else [])]
            nodes += [(each, known, depth + 1) for each in node.else_]
        else:
            nodes += [(child, known, depth + 1) for child in node.iter_child_nodes()]
    return names, is_plain


def _check_node(node: Any) -> None:
    from jinja2 import TemplateSyntaxError

    kind = type(node).__name__
    line = getattr(node, "lineno", 1)
    if kind == "Concat":
        raise TemplateSyntaxError("write {{ a }}{{ b }} in place of a ~ b", line)
    if kind not in _NODES:
        raise TemplateSyntaxError(f"{kind} is not allowed: only expressions, if and for", line)
    if kind == "Filter" and (node.node is None or node.name not in environment().filters):
        raise TemplateSyntaxError(f"there is no filter {node.name!r}", line)
    if kind == "Test" and node.name not in environment().tests:
        raise TemplateSyntaxError(f"there is no test {node.name!r}", line)
    if kind == "For" and node.recursive:
        raise TemplateSyntaxError("a recursive loop is not allowed", line)


def _reads_constants(node: Any) -> bool:
    """Returns whether a comparison or an item takes a constant, so that its cost does not grow with the value."""
    kind = type(node).__name__
    if kind == "Compare":
        return all(each.op not in ("in", "notin") and type(each.expr).__name__ == "Const" for each in node.ops)
    return kind != "Getitem" or type(node.arg).__name__ == "Const"


def _targets(target: Any) -> set[str]:
    """Returns the names of the items of a loop: `x`, or `key, value`."""
    from jinja2 import nodes

    return {target.name} if isinstance(target, nodes.Name) else {name.name for name in target.find_all(nodes.Name)}


def _only_expression(source: str, tree: Any) -> str | None:
    """Returns the expression of a template that is nothing else, or None."""
    text = source.strip()
    if not (text.startswith("{{") and text.endswith("}}")):
        return None
    from jinja2 import nodes

    body = tree.body if text == source else environment().parse(text).body
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    if isinstance(body[0].nodes[0], nodes.TemplateData):
        return None
    return text[2:-2].strip("+-").strip() if text[2:3] in "+-" or text[-3:-2] in "+-" else text[2:-2].strip()


def decoded(result: Any) -> Any:
    """Returns a result as templates read it: a text that is a JSON object or array, a number, true or false has its
    value, if that is written in the same way."""
    if not isinstance(result, str):
        return from_tool(result)
    text = result.strip()
    if not text or len(text) > MAX_RENDERED:
        return result
    if text[0] in "{[":
        return json_or(text, result)
    if text in ("true", "false"):
        return text == "true"
    if text[0] in "-0123456789" and len(text) < 20:
        value = json_or(text, result)
        return value if json.dumps(value) == text else result
    return result


def from_tool(value: Any) -> Any:
    """Returns the value of a tool as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): from_tool(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [from_tool(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
