"""Renders templates by jinja2's sandbox: in the process that `sandbox` starts for it, or in the caller's if the
template only reads values.

Nothing here bounds time or memory: the limits of the process do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from archon.errors import FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_RENDERED: Final = 1024 * 1024
"""Characters of a template's result."""

MAX_SHOWN: Final = 60
"""Characters of a text in an error."""

_TEXT_METHODS: Final = (
    "upper lower strip lstrip rstrip title capitalize startswith endswith split splitlines find count isdigit "
    "removeprefix removesuffix"
)
METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset(_TEXT_METHODS.split()),
    dict: frozenset({"get", "keys", "values", "items"}),
    list: frozenset({"index", "count"}),
}
"""The methods that templates may call, by the type of the value."""

_FILTERS: Final = (
    "abs capitalize count d default dictsort first float indent int items last length list lower map max min reject "
    "rejectattr reverse round select selectattr sort sum title trim truncate unique upper wordcount"
)
_TESTS: Final = (
    "boolean defined divisibleby eq equalto even false float ge greaterthan gt integer iterable le lessthan lower lt "
    "mapping ne none number odd sequence string true undefined upper != < <= == > >= in"
)


TRUE_TEXTS: Final = frozenset({"true", "yes", "on", "1"})
FALSE_TEXTS: Final = frozenset({"false", "no", "off", "0", "none", ""})
"""The meaning of texts in a condition, without blanks around them and in any case."""


def answer(text: str) -> str:
    """Answers a request of `sandbox`: the value of a template, its text, or whether it is true, as JSON."""
    request = json.loads(text)
    source, expression, values = request["source"], request["expression"], request["values"]
    return json.dumps(evaluate(source, expression, values, is_condition=request["is_condition"], is_computed=True))


def truth(value: Any) -> bool:
    """Returns whether a value is true in a condition: not empty, not zero, not none, and no text that says so. Raises
    InvalidArgument for a text that is neither true nor false."""
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        str(value)  # raises, and names it
    if not isinstance(value, str):
        return bool(value)
    word = value.strip().lower()
    if word in TRUE_TEXTS or word in FALSE_TEXTS:
        return word in TRUE_TEXTS
    shown = value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}..."
    raise InvalidArgument(f"the text {shown!r} is neither true nor false: compare it, as in {{{{ x == 'a' }}}}")


def evaluate(
    source: str, expression: str | None, values: Mapping[str, Any], *, is_condition: bool = False, is_computed: bool
) -> Any:
    """Returns the text of a template, the value of its only expression, or as a condition whether it is true. A value
    that is computed, not read, is held to MAX_RENDERED characters of JSON. Raises InvalidArgument for every error of
    the template."""
    from jinja2 import TemplateError

    try:
        if is_condition:
            return truth(_rendered(source, values) if expression is None else _condition(expression)(dict(values)))
        if expression is None:
            return _rendered(source, values)
        value = _evaluated(expression, values)
        if is_computed:
            _check_size(len(value) if isinstance(value, str) else len(json.dumps(value, ensure_ascii=False)))
        return value
    except (InvalidArgument, MemoryError):
        raise
    except TemplateError as error:
        raise InvalidArgument(error.message or str(error)) from None
    except RecursionError:
        raise InvalidArgument("nested too deep") from None
    except Exception as error:  # noqa: BLE001 - a template may fail in as many ways as Python
        raise InvalidArgument(f"{type(error).__name__}: {str(error)[:300]}") from None


def _rendered(source: str, values: Mapping[str, Any]) -> str:
    pieces: list[str] = []
    size = 0
    for piece in compiled(source).generate(dict(values)):
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


@lru_cache(maxsize=100)
def compiled(source: str) -> Any:
    """Returns the template as jinja2 has it."""
    return environment().from_string(source)


@lru_cache(maxsize=100)
def _compiled_expression(expression: str) -> Any:
    return environment().compile_expression(expression, undefined_to_none=False)


@lru_cache(maxsize=100)
def _condition(expression: str) -> Any:
    """Returns a compiled expression in which `not`, `and`, `or` and `if` take texts as `truth` does."""
    from jinja2 import nodes
    from jinja2.environment import TemplateExpression
    from jinja2.parser import Parser

    parser = Parser(environment(), expression, state="variable")
    tree = _with_truth(parser.parse_expression())
    tree.set_environment(environment())
    body = [nodes.Assign(nodes.Name("result", "store", lineno=1), tree, lineno=1)]
    return TemplateExpression(environment().from_string(nodes.Template(body, lineno=1)), undefined_to_none=False)


def _with_truth(node: Any) -> Any:
    from jinja2 import nodes

    def operand(inner: Any) -> Any:
        return nodes.Filter(_with_truth(inner), "truth", [], [], None, None, lineno=inner.lineno)

    if isinstance(node, nodes.Not):
        node.node = operand(node.node)
    elif isinstance(node, (nodes.And, nodes.Or)):
        node.left, node.right = operand(node.left), operand(node.right)
    elif isinstance(node, nodes.CondExpr):
        node.test, node.expr1 = operand(node.test), _with_truth(node.expr1)
        node.expr2 = _with_truth(node.expr2) if node.expr2 is not None else None
    return node


@lru_cache(maxsize=1)
def environment() -> ImmutableSandboxedEnvironment:
    """Returns the sandbox of jinja2. Raises FailedPrecondition without jinja2."""
    try:
        from jinja2 import StrictUndefined, nodes
        from jinja2.compiler import CodeGenerator
        from jinja2.filters import FILTERS
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.tests import TESTS
    except ImportError:
        message = "workflows need jinja2, which comes with Archon: pip install jinja2"
        raise FailedPrecondition(message, metadata={"package": "jinja2"}) from None

    class Generator(CodeGenerator):
        def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> str:
            # A template is compiled where it is checked: nothing of it may be computed there.
            if not isinstance(node, nodes.TemplateData):
                raise nodes.Impossible
            return super()._output_child_to_const(node, frame, finalize)

    class Environment(ImmutableSandboxedEnvironment):
        code_generator_class = Generator
        intercepted_binops = frozenset({"%"})

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            allowed = next((names for kind, names in METHODS.items() if isinstance(obj, kind)), frozenset[str]())
            is_loop = type(obj).__name__ == "LoopContext" and attr in ("index", "index0", "first", "last", "length")
            return attr in allowed or is_loop

        def getattr(self, obj: Any, attribute: str) -> Any:
            # A key of an object comes before a method of the same name, such as `items`.
            return obj[attribute] if isinstance(obj, Mapping) and attribute in obj else super().getattr(obj, attribute)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if isinstance(left, (str, bytes)):
                raise InvalidArgument("% does not format a text in a template: write {{ value }} in it")
            return super().call_binop(context, operator, left, right)

        def is_safe_callable(self, obj: Any) -> bool:
            owner = getattr(obj, "__self__", None)
            return obj is range or any(
                isinstance(owner, kind) and getattr(obj, "__name__", "") in names for kind, names in METHODS.items()
            )

    sandbox = Environment(
        undefined=StrictUndefined, finalize=_shown, autoescape=False, keep_trailing_newline=True, optimized=False
    )
    sandbox.filters = {name: FILTERS[name] for name in _FILTERS.split()}
    sandbox.filters |= {"join": _join, "replace": _replace, "string": _shown, "tojson": _to_json, "truth": truth}
    sandbox.policies["truncate.leeway"] = 0
    sandbox.tests = {name: TESTS[name] for name in _TESTS.split()}
    sandbox.globals = {"range": range}
    return sandbox


def _check_size(size: int) -> None:
    if size > MAX_RENDERED:
        raise InvalidArgument(f"a template gives more than {MAX_RENDERED:,} characters")


def _join(items: Iterable[Any], separator: str = "", attribute: str | int | None = None) -> str:
    get = environment().getitem
    return separator.join(_shown(item if attribute is None else get(item, attribute)) for item in items)


def _replace(text: Any, old: str, new: str, count: int = -1) -> str:
    return _shown(text).replace(old, new, count)


def _to_json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it, with lists in place of iterators."""
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        str(value)  # raises, and names it
    if isinstance(value, str):
        return str(value)  # without the class of a markup
    if isinstance(value, (bool, int)) or value is None:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgument("a number in a template is not finite")
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    raise InvalidArgument(f"a template gives no value, but a {type(value).__name__}")


def _shown(value: Any) -> str:
    """Returns a value as it stands in a text: nothing for none, JSON for a value that is no text."""
    if isinstance(value, str):
        return value
    plain = _plain(value)
    return "" if plain is None else plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
