"""The names of the functions that a query of PostgreSQL calls, read as its lexer reads the text.

A transaction that is READ ONLY holds back a query's writes to tables, but no function that acts elsewhere. Lexical
rules: https://www.postgresql.org/docs/current/sql-syntax-lexical.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from archon.errors import InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS

MAX_NAME: Final = 63
"""Bytes of a name. The server cuts longer ones."""

_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\n\r\f\v]+ | --[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<coded>[uU]&")
    | (?P<text>'(?:[^']|'')*')
    | (?P<dollar>\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?)\$)
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<name>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
    | (?P<parameter>\$[0-9]+)
    | (?P<other>.)
    """,
    re.X | re.S,
)
_CONTINUED: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.S)
_COMMENT: Final = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Names:
    """The names before an opening bracket, and those after a dot, which may call a function of a row: `(t).name`."""

    called: frozenset[str]
    after_dot: frozenset[str]


def names_in(sql: str) -> Names:
    """Returns the names that a query may call. Raises InvalidArgument for a text that the server could read in another
    way."""
    called: set[str] = set()
    after_dot: set[str] = set()
    position, name, last, is_escaped = 0, "", "", False
    while match := _TOKEN.match(sql, position):
        kind, position = str(match.lastgroup if match.lastgroup != "tag" else "dollar"), match.end()
        if kind == "space":
            continue
        if kind == "comment":
            position = _end_of_comment(sql, position)
            continue
        if kind == "coded":
            raise _refused('a name in U&"..." is not read: write it in "..."')
        if kind == "text" and is_escaped and (longer := _CONTINUED.match(sql, match.start())):
            position = longer.end()  # E'...' goes on in the next line
        is_escaped = kind == "escaped" or (kind == "text" and is_escaped)
        if kind == "dollar":
            end = sql.find(match[0], position)
            position = len(sql) if end < 0 else end + len(match[0])
        if kind == "other" and match[0] == "(" and name:
            called.add(name)
        name = ""
        if kind in ("name", "quoted"):
            name = _name(match[0])
            if last == ".":
                after_dot.add(name)
        last = match[0]
    return Names(frozenset(called), frozenset(after_dot))


def _name(text: str) -> str:
    name = text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()
    return name.encode()[:MAX_NAME].decode(errors="ignore")


def _end_of_comment(sql: str, position: int) -> int:
    """Returns where a comment ends. Comments are nested."""
    depth = 1
    for match in _COMMENT.finditer(sql, position):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    return len(sql)


def _refused(message: str) -> InvalidArgument:
    return InvalidArgument(f"invalid query: {message}", kind=INVALID_PARAMETERS)
