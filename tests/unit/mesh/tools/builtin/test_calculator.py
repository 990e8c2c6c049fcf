"""Arithmetic by a grammar."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import ArchonError, InvalidArgument
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.builtin import Calculator
from archon_mesh.tools.builtin.arithmetic import MAX_CHARS, evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+2", 4),
        ("15 * 3", 45),
        ("15*24", 360),
        ("15% of 200", 30),
        ("15 % of 200", 30),
        ("200 * 15%", 30),
        ("50% - 10%", 0.4),
        ("10 % 3", 1),
        ("10 mod 3", 1),
        ("-7 // 2", -4),
        ("7 / 2", 3.5),
        ("6 / 3", 2),
        ("2 ^ 3 ^ 2", 512),
        ("2 ** 10", 1024),
        ("-2 ^ 2", -4),
        ("2 ^ -1", 0.5),
        ("(-2) ^ 2", 4),
        ("--3", 3),
        ("5!", 120),
        ("(1 + 2) * (3 - 4)", -3),
        ("1_000 \u00d7 3 \u00f7 4 \u2212 1", 749),
        ("1e3 + .5", 1000.5),
        ("sqrt(16) + abs(-3)", 7),
        ("round(2.567, 2)", 2.57),
        ("min(3, 1, 2) + MAX(3, 4)", 5),
        ("log(1000)", 3),
        ("log(8, 2)", 3),
        ("ln(e)", 1),
        ("cos(pi)", -1),
        ("gcd(12, 18)", 6),
        ("10 ^ 20 / 10 ^ 18", 100),
        ("99999999999999999999 + 1", 10**20),
        ("0.1 + 0.2", 0.1 + 0.2),
    ],
)
def test_an_expression_has_its_value(expression: str, value: float) -> None:
    assert evaluate(expression) == pytest.approx(value, rel=1e-15)
    assert type(evaluate(expression)) is type(value)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "the end is not expected after nothing"),
        ("2 +", "the end is not expected after '2 +'"),
        ("2 3", "'3' is not expected after '2'"),
        ("(2", "the end is not expected after '( 2'"),
        ("2)", "')' is not expected after '2'"),
        ("2 $ 3", "'$ 3' is not expected here"),
        ("x + 1", "unknown name 'x'; there are pi, e"),
        ("__import__('os')", "is not expected here"),
        ("().__class__", "'.__class__' is not expected here"),
        ("()", "')' is not expected after '('"),
        ("sqrt", "the end is not expected after 'sqrt'"),
        ("sqrt(1, 2)", "sqrt takes 1 argument, not 2"),
        ("min(1)", "min takes 2 to 99 arguments, not 1"),
        ("1 / 0", "no value: division by zero"),
        ("1 % 0", "no value"),
        ("sqrt(-1)", "no value: math domain error"),
        ("(-8) ^ 0.5", "is not real"),
        ("9^9^9^9", "is too large"),
        ("10 ^ 400.5", "no value"),
        ("1e400", "a number is too large"),
        ("9999!", "0 to 500 are allowed"),
        ("2.5!", "2.5 is not a whole number"),
        ("(" * 100 + "1" + ")" * 100, "nested more than 50 levels"),
        ("-" * 500 + "1", "nested more than 50 levels"),
        ("1" * (MAX_CHARS + 1), "at most 1,000 are allowed"),
        ("9" * 900 + "*" + "9" * 90, ""),
    ],
)
def test_what_has_no_value_is_refused_with_the_reason(expression: str, why: str) -> None:
    if not why:
        assert evaluate(expression) > 10**900
        return
    with pytest.raises(InvalidArgument) as raised:
        evaluate(expression)
    assert why in str(raised.value)


@given(st.text(alphabet="0123456789+-*/%^!().,eE_ sqrtminlogpa", max_size=40))
def test_any_text_has_a_finite_value_or_is_refused(text: str) -> None:
    try:
        value = evaluate(text)
    except ArchonError:
        return
    assert math.isfinite(value) if isinstance(value, float) else value.bit_length() <= 8_192


async def test_the_tool_answers_a_number_or_the_reason() -> None:
    engine = ToolExecutionEngine(ToolRegistry([Calculator()]))
    assert (await engine.execute_tool_call("calculator", {"expression": "2+2"})).content == 4
    failed = await engine.execute_tool_call("calculator", {"expression": "2+"})
    assert (failed.status, "the end is not expected" in str(failed.content)) == ("error", True)
