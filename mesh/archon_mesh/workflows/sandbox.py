"""Templates in workflows: jinja2's sandbox with bounds, so that no template can take the process's time or memory.

A template has expressions, `{% if %}` and `{% for %}`. It reads the values that it is given, by a few filters and
methods that cannot multiply a text beyond a bound; it calls nothing else and changes nothing. Values are data: a
template in a result is never rendered.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.core.plan.templates import as_text

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_SOURCE: Final = 20_000
"""Characters of one template."""

MAX_RENDERED: Final = 1024 * 1024
"""Characters of what a template gives, and of every value on the way."""

MAX_ITERATIONS: Final = 10_000
"""Iterations of all loops of one template, and items of a range."""

MAX_BITS: Final = 4_096
"""Bits of a number."""

_TEXT_METHODS: Final = (
    "upper lower strip lstrip rstrip title capitalize startswith endswith split splitlines find count isdigit "
    "removeprefix removesuffix"
)
METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset(_TEXT_METHODS.split()),
    dict: frozenset({"get", "keys", "values", "items"}),
    list: frozenset({"index", "count"}),
}
"""The methods that templates may call, by the type of the value. None gives more than it gets."""

_FILTERS: Final = (
    "abs capitalize count d default dictsort first float int items last length list lower map max min reject "
    "rejectattr reverse select selectattr sort title trim unique upper wordcount"
)
_TESTS: Final = (
    "boolean defined divisibleby eq equalto even false float ge greaterthan gt integer iterable le lessthan lower lt "
    "mapping ne none number odd sequence string true undefined upper != < <= == > >= in"
)
_NODES: Final = (
    "Template Output TemplateData If For Name Const TemplateData Tuple List Dict Pair Keyword CondExpr Filter Test "
    "Call Getattr Getitem Slice Compare Operand Add Sub Mul Div FloorDiv Mod Pow And Or Not Neg Pos"
)

_iterations: ContextVar[list[int]] = ContextVar("archon_workflow_iterations")


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was checked. `names` are the values that it reads."""

    source: str
    names: frozenset[str]

    def render(self, values: Mapping[str, Any]) -> str:
        """Returns the text. Raises InvalidArgument if a value is missing, or a bound is exceeded."""
        return str(_guarded(lambda: _rendered(self.source, values)))

    def value(self, values: Mapping[str, Any]) -> Any:
        """Returns the text, or, of a template that is one expression, its value with its type. Raises as `render`."""
        expression = _only_expression(self.source)
        return self.render(values) if expression is None else _guarded(lambda: _evaluated(expression, values))

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Returns whether the value is true: not empty, not zero, and no text such as "false". Raises as `render`."""
        value = self.value(values)
        return value.strip().lower() not in ("", "false", "no", "0", "none") if isinstance(value, str) else bool(value)


@lru_cache(maxsize=2_000)
def template(source: str) -> Template:
    """Checks a template. Raises InvalidArgument if it is invalid, or has more than expressions, `if` and `for`; and
    FailedPrecondition without jinja2."""
    if len(source) > MAX_SOURCE:
        raise InvalidArgument(f"a template has {len(source):,} characters, at most {MAX_SOURCE:,}")
    environment = _environment()
    from jinja2 import TemplateSyntaxError, meta

    try:
        tree = environment.parse(source)
        _check(tree)
        names = meta.find_undeclared_variables(tree) - {"range"}
        _compiled(source)
    except TemplateSyntaxError as error:
        raise InvalidArgument(f"invalid template: {error.message}") from None
    except RecursionError:
        raise InvalidArgument("invalid template: nested too deep") from None
    except ValueError as error:  # such as a number with too many digits
        raise InvalidArgument(f"invalid template: {error}") from None
    return Template(source, frozenset(names))


def _check(tree: Any) -> None:
    """Raises TemplateSyntaxError for what a template may not have."""
    from jinja2 import TemplateSyntaxError, nodes

    allowed = frozenset(_NODES.split())
    environment = _environment()
    for node in (tree, *tree.find_all(nodes.Node)):
        kind = type(node).__name__
        line = getattr(node, "lineno", 1)
        if kind == "Concat":
            raise TemplateSyntaxError("write {{ a }}{{ b }} in place of a ~ b", line)
        if kind not in allowed:
            raise TemplateSyntaxError(f"{kind} is not allowed: only expressions, if and for", line)
        if kind == "Filter" and (node.node is None or node.name not in environment.filters):
            raise TemplateSyntaxError(f"there is no filter {node.name!r}", line)
        if kind == "Test" and node.name not in environment.tests:
            raise TemplateSyntaxError(f"there is no test {node.name!r}", line)
        if kind == "For" and node.recursive:
            raise TemplateSyntaxError("a recursive loop is not allowed", line)


def _only_expression(source: str) -> str | None:
    """Returns the expression of a template that is nothing else, or None."""
    text = source.strip()
    if not (text.startswith("{{") and text.endswith("}}")):
        return None
    from jinja2 import nodes

    body = _environment().parse(text).body
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    if isinstance(body[0].nodes[0], nodes.TemplateData):
        return None
    return text[2:-2].strip("+-").strip() if text[2:3] in "+-" or text[-3:-2] in "+-" else text[2:-2].strip()


def _rendered(source: str, values: Mapping[str, Any]) -> str:
    pieces: list[str] = []
    size = 0
    for piece in _compiled(source).generate(dict(values)):
        size += len(piece)
        _check_size(size)
        pieces.append(piece)
    return "".join(pieces)


def _evaluated(expression: str, values: Mapping[str, Any]) -> Any:
    from jinja2 import Undefined

    value = _compiled_expression(expression)(dict(values))
    if isinstance(value, Undefined):
        str(value)  # raises, and names it
    return _plain(value)


@lru_cache(maxsize=500)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


@lru_cache(maxsize=500)
def _compiled_expression(expression: str) -> Any:
    return _environment().compile_expression(expression, undefined_to_none=False)


def _guarded(work: Callable[[], Any]) -> Any:
    """Raises InvalidArgument for every error of a template."""
    from jinja2 import TemplateError

    token = _iterations.set([0])
    try:
        return work()
    except InvalidArgument:
        raise
    except TemplateError as error:
        raise InvalidArgument(error.message or str(error)) from None
    except RecursionError:
        raise InvalidArgument("nested too deep") from None
    except Exception as error:  # noqa: BLE001 - a template may fail in as many ways as Python
        raise InvalidArgument(f"{type(error).__name__}: {str(error)[:300]}") from None
    finally:
        _iterations.reset(token)


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    try:
        from jinja2 import StrictUndefined, nodes
        from jinja2.filters import FILTERS
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.tests import TESTS
    except ImportError:
        message = "workflows need jinja2, which comes with Archon: pip install jinja2"
        raise FailedPrecondition(message, metadata={"package": "jinja2"}) from None

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"+", "*", "**", "%", "-", "/", "//"})

        def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
            tree = super()._parse(source, name, filename)
            for loop in tree.find_all(nodes.For):
                loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno)
            return tree

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            allowed = next((names for kind, names in METHODS.items() if isinstance(obj, kind)), frozenset[str]())
            is_loop = type(obj).__name__ == "LoopContext" and attr in ("index", "index0", "first", "last", "length")
            return attr in allowed or is_loop

        def getattr(self, obj: Any, attribute: str) -> Any:
            # A key of an object comes before a method of the same name, such as `items`.
            return obj[attribute] if isinstance(obj, Mapping) and attribute in obj else super().getattr(obj, attribute)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operands(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def is_safe_callable(self, obj: Any) -> bool:
            owner = getattr(obj, "__self__", None)
            return obj is _range or any(
                isinstance(owner, kind) and getattr(obj, "__name__", "") in names for kind, names in METHODS.items()
            )

    environment = Environment(undefined=StrictUndefined, finalize=_shown, autoescape=False, keep_trailing_newline=True)
    environment.filters = {name: FILTERS[name] for name in _FILTERS.split()}
    environment.filters |= {
        "counted": _counted,
        "indent": _indent,
        "join": _join,
        "replace": _replace,
        "round": _round,
        "string": _shown,
        "sum": _sum,
        "tojson": _to_json,
        "truncate": _truncate,
    }
    environment.tests = {name: TESTS[name] for name in _TESTS.split()}
    environment.globals = {"range": _range}
    return environment


# What templates may call ---------------------------------------------------------------------------------------------


def _check_size(size: int) -> None:
    if size > MAX_RENDERED:
        raise InvalidArgument(f"a template gives more than {MAX_RENDERED:,} characters")


def _check_operands(operator: str, left: Any, right: Any) -> None:
    """Raises InvalidArgument if the result of an operator may be too large."""
    if operator == "%" and isinstance(left, (str, bytes)):
        raise InvalidArgument("% does not format a text in a template: write {{ value }} in it")
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    if numbers:
        bits = [value.bit_length() if isinstance(value, int) else 64 for value in (left, right)]
        if operator == "**" and isinstance(right, int) and isinstance(left, int):
            too_large = bits[0] * abs(right) > MAX_BITS
        else:
            too_large = sum(bits) > MAX_BITS
        if too_large:
            raise InvalidArgument(f"a number in a template has more than {MAX_BITS:,} bits")
    elif operator == "*":
        text, count = (left, right) if isinstance(right, int) else (right, left)
        if isinstance(count, int) and hasattr(text, "__len__"):
            _check_size(_size(text) * max(count, 0))
    elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        _check_size(_size(left) + _size(right))


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else sum(len(each) if isinstance(each, str) else 1 for each in value)


def _range(*limits: int) -> range:
    numbers = range(*limits)
    if len(numbers) > MAX_ITERATIONS:
        raise InvalidArgument(f"a range in a template has more than {MAX_ITERATIONS:,} items")
    return numbers


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    """Yields the items of a loop, and counts all iterations of the template."""
    count = _iterations.get()
    for item in items:
        count[0] += 1
        if count[0] > MAX_ITERATIONS:
            raise InvalidArgument(f"the loops of a template have more than {MAX_ITERATIONS:,} iterations")
        yield item


def _join(items: Iterable[Any], separator: str = "", attribute: str | int | None = None) -> str:
    pieces: list[str] = []
    size = 0
    for item in items:
        value = item if attribute is None else _environment().getitem(item, attribute)
        pieces.append(_shown(value))
        size += len(pieces[-1]) + len(separator)
        _check_size(size)
    return separator.join(pieces)


def _replace(text: Any, old: str, new: str, count: int = -1) -> str:
    shown = _shown(text)
    hits = shown.count(old) if count < 0 else min(count, shown.count(old))
    _check_size(len(shown) + hits * len(new))
    return shown.replace(old, new, count)


def _indent(text: str, width: int | str = 4, first: bool = False) -> str:
    size = width if isinstance(width, int) else len(width)
    _check_size(len(text) + max(size, 0) * (text.count("\n") + 1))
    space = " " * width if isinstance(width, int) else width
    lines = text.split("\n")
    indented = [space + line if line and (first or number) else line for number, line in enumerate(lines)]
    return "\n".join(indented)


def _truncate(text: str, length: int = 255, killwords: bool = False, end: str = "...") -> str:
    if len(text) <= length:
        return text
    cut = text[: max(0, length - len(end))]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def _round(value: float, precision: int = 0) -> float:
    return round(value, max(-15, min(15, precision)))


def _sum(items: Iterable[Any], attribute: str | int | None = None) -> float:
    values = (item if attribute is None else _environment().getitem(item, attribute) for item in items)
    total: float = 0
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidArgument(f"sum adds numbers, not {type(value).__name__}")
        _check_operands("+", total, value)
        total += value
    return total


def _to_json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it, with lists in place of what is read only once."""
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        str(value)  # raises, and names it
    if isinstance(value, (str, bool, int)) or value is None:
        if isinstance(value, str):
            _check_size(len(value))
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument("a number in a template is not finite")
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        items = list(_bounded(value))
        return [_plain(item) for item in items]
    raise InvalidArgument(f"a template gives no value, but a {type(value).__name__}")


def _bounded(items: Iterable[Any]) -> Iterator[Any]:
    for number, item in enumerate(items):
        _check_size(number)
        yield item


def _shown(value: Any) -> str:
    """Returns a value as it stands in a text: nothing for none, JSON for what is no text."""
    if isinstance(value, str):
        return value
    plain = _plain(value)
    return "" if plain is None else as_text(plain)


def decoded(result: Any) -> Any:
    """Returns a result as templates read it: a text that is a JSON object or array, a number, true or false has its
    value, if that is written in the same way."""
    if not isinstance(result, str):
        return _from_tool(result)
    text = result.strip()
    if not text or len(text) > MAX_RENDERED:
        return result
    if text[0] in "{[":
        return _parsed(text, result)
    if text in ("true", "false"):
        return text == "true"
    if text[0] in "-0123456789" and len(text) < 20:
        value = _parsed(text, result)
        return value if json.dumps(value) == text else result
    return result


def _parsed(text: str, otherwise: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def _from_tool(value: Any) -> Any:
    """Returns the value of a tool as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _from_tool(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_from_tool(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
