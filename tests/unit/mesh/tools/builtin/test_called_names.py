"""The names that a query of PostgreSQL calls, in every spelling that the server's lexer takes."""

from __future__ import annotations

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools.builtin.sql.called_names import names_in


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f(1)",
        "SELECT F (1)",
        "SELECT f\n\t(1)",
        "SELECT f/* a */(1)",
        "SELECT f/* a /* b */ c */ (1)",
        "SELECT f -- note (\n (1)",
        "SELECT f --\r(1)",
        'SELECT "f"(1)',
        'SELECT pg_catalog."f" (1)',
        "SELECT pg_catalog.f(1)",
        "SELECT pg_catalog . f (1)",
        "SELECT 'a'f(1)",
        "SELECT 'it''s', f(1)",
        "SELECT 'a\\', f(1), 'b'",
        "SELECT E'a\\\\', f(1), 'b'",
        "SELECT e'a\\\\'f(1)",
        "SELECT E'a\\'', f(1), 'b'",
        "SELECT E'\\'', f(1), E'\\''",
        "SELECT e'a'\n'\\'', f(1), e'\\''",
        "SELECT e'a' -- b\n '\\'', f(1), e'\\''",
        "SELECT e'a', '\\', f(1), '\\'",
        "SELECT $$ ' $$, f(1), $$ ' $$",
        "SELECT $a$ $$ ' $a$, f(1)",
        "SELECT $1$$f(1)$$, f(1)",
        "SELECT 1 a$b$, f(1), c$b$",
        "SELECT 1 AS \"a'\", f(1), '\"'",
        'SELECT 1 AS "a""b", f(1)',
        "SELECT 1+f(1)",
        "SELECT 1f(1)",
        "SELECT 1-/**/-f(1)",
        "SELECT b'1', x'1', n'a', f(1)",
        "SELECT U&'\\0061' UESCAPE '!', f(1)",
        "SELECT date'2020-01-01', f(1)",
        "SELECT @-f(1)",
        "SELECT 1 WHERE 1=1and f(1)",
        "TABLE t UNION SELECT * FROM f (1)",
        "SELECT 1 LIMIT f(1)",
        "SELECT sum(1) OVER (ROWS f(1) PRECEDING)",
        "SELECT * FROM t TABLESAMPLE f(1)",
        "SELECT '--', f(1) -- '",
        "SELECT '/*', f(1) /* ' */",
    ],
)
def test_a_call_is_found_in_every_spelling(sql: str) -> None:
    assert "f" in names_in(sql).called


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'f(1)'",
        "SELECT 'it''s f(1)'",
        "SELECT $$f(1)$$",
        "SELECT $a$ $$ f(1) $b$ $a$",
        'SELECT 1 AS "f(1)"',
        "SELECT 1 -- f(1)",
        "SELECT 1 /* f(1) */",
        "SELECT 1 /* /* */ f(1) */",
        "SELECT f, (1)",
        "SELECT f",
        "SELECT E'\\\\ f(1)'",
        "SELECT E'\\', f(1), '",
        "SELECT e'a'\n'\\', f(1), '",
        "SELECT a$f$(1)",
    ],
)
def test_what_is_no_call_is_not_found(sql: str) -> None:
    assert "f" not in names_in(sql).called


@pytest.mark.parametrize("sql", ['SELECT U&"\\0066"(1)', 'SELECT u&"f"(1)'])
def test_a_text_that_could_be_read_in_two_ways_is_refused(sql: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid query"):
        names_in(sql)


def test_names_after_a_dot_may_call_a_function_of_a_row() -> None:
    assert names_in("SELECT (t).f, a.b.c, t.*, d FROM t").after_dot == {"f", "b", "c"}


def test_a_name_is_cut_as_the_server_does() -> None:
    assert names_in(f"SELECT {'f' * 70}(1)").called == {"f" * 63}


def test_a_long_query_takes_time_in_proportion() -> None:
    for text in (
        "(" * 20_000,
        "f(" * 10_000,
        "/*" * 10_000,
        "'" * 19_999,
        "$a" * 10_000,
        "$$" * 9_999,
        "E'\\\\" * 5_000,
    ):
        names_in("SELECT " + text)
