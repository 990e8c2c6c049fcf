"""Writes docs/reference/errors.md from the code: `python -m tests.unit.docs.errors_page`.

The sources are the error classes and their docstrings, the contract's comments on its reasons, the catalogue of
failure kinds, docs/failures.md (what notices a kind), and `remedies`.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from archon import errors
from archon.agent import TaskRejected
from archon.failure_kinds import CATALOGUE, FailureKind, kind_of
from archon_services.local_mesh.errors import AlreadyUp, StartFailed
from tests.unit.docs import remedies
from tests.unit.docs.tables import REFERENCE, code, table

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = REFERENCE / "errors.md"
CONTRACT: Final = ROOT / "protos" / "archon" / "api" / "common" / "v1" / "failure.proto"
FAILURES: Final = ROOT / "docs" / "failures.md"
SOURCES: Final = ("sdk/python/archon", "mesh", "services")

HEAD: Final = """# Errors

Every error has a *reason*: in Python `error.reason`, in an RPC the `reason` of `google.rpc.ErrorInfo` (domain
`archon.dev`), in a frame or event `Failure.reason`. The class is that of `archon.errors`; a reason without a class of
its own is raised as the class of its gRPC code. *Retry* says whether the same work may succeed again: `never`, `later`,
or `elsewhere` (on another instance). [Failures](../failures.md) describes how runs recover.

`archon` prints an error as one line, `error: ...`, and where it knows one, a second, `hint: ...`.
[Troubleshooting](../troubleshooting.md) begins with these messages.

This page is written by `python -m tests.unit.docs.errors_page` from the code; a test compares them.
"""

REASONS: Final = """
## Reasons

"""

KINDS: Final = """
## Kinds

A kind says what failed (`error.kind`, `Failure.kind`). Most follow from the reason. The others are named by the place
that raises the error, whose reason is then that of its gRPC code. Kinds that no part of Archon reports yet are in the
[catalogue](../failures.md) only.

"""


@dataclass(frozen=True, slots=True)
class Reason:
    """One row: a reason, the gRPC codes and the error classes that have it, and what it means."""

    name: str
    codes: tuple[str, ...]
    classes: tuple[str, ...]
    meaning: str

    @property
    def kind(self) -> FailureKind:
        """The kind of an error with this reason."""
        return kind_of(self.codes[0], self.name)


def page() -> str:
    """Renders the page. Raises KeyError for a reason or kind without a remedy."""
    return HEAD + REASONS + _reasons_table() + KINDS + _kinds_table()


def classes() -> list[type[errors.ArchonError]]:
    """Returns the public error classes that have a reason of their own, in the order of their definition."""
    own = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.ArchonError)]
    return [cls for cls in [*own, TaskRejected, AlreadyUp, StartFailed] if cls is not errors.ArchonError]


_BY_NAME: Final = {cls.__name__: cls for cls in classes()}
_BY_CODE: Final = {cls.code: cls.__name__ for cls in classes() if cls.__bases__[0] is errors.ArchonError}


@cache
def reasons() -> dict[str, Reason]:
    """Returns all reasons by name: those of the classes, and those of the contract. Raises KeyError for a reason of
    the contract that no code raises."""
    raised, found = _raised_classes(), {}
    for cls in classes():
        meaning = _first_paragraph(inspect.getdoc(cls) or "").removeprefix(f"{cls.code}: ")
        found[cls.default_reason] = Reason(cls.default_reason, (cls.code,), (cls.__name__,), _sentence(meaning))
    for name, comment in _contract_comments().items():
        if name not in found and name != "UNSPECIFIED":
            names = sorted(raised[name])
            found[name] = Reason(name, tuple(_BY_NAME[cls].code for cls in names), tuple(names), comment)
    return dict(sorted(found.items()))


def _reasons_table() -> str:
    rows = []
    for reason in reasons().values():
        rows.append(
            (
                code(reason.name),
                ", ".join(map(code, reason.classes)),
                ", ".join(reason.codes),
                code(reason.kind.name),
                reason.kind.severity.name.lower(),
                reason.kind.retry.name.lower(),
                reason.meaning,
                remedies.REASONS[reason.name],
            )
        )
    return table(("reason", "class", "gRPC code", "kind", "severity", "retry", "meaning", "what to do"), rows)


def _kinds_table() -> str:
    by_kind: dict[str, list[str]] = {}
    for reason in reasons().values():
        by_kind.setdefault(reason.kind.name, []).append(code(reason.name))
    noticed = _noticed_by()
    rows = [
        (
            code(kind.name),
            kind.severity.name.lower(),
            kind.retry.name.lower(),
            noticed[kind.name],
            ", ".join(by_kind.get(kind.name, [])),
            "As for the reason." if kind.name in by_kind else remedies.KINDS[kind.name],
        )
        for kind in CATALOGUE.values()
    ]
    return table(("kind", "severity", "retry", "noticed by", "reasons", "what to do"), rows)


def _noticed_by() -> dict[str, str]:
    """Returns the column `noticed by` of docs/failures.md by kind."""
    rows = [line.split(" | ") for line in FAILURES.read_text().splitlines() if line.startswith("| `")]
    return {row[0].strip("| `"): row[3] for row in rows}


def _contract_comments() -> dict[str, str]:
    """Returns the contract's comment on each reason."""
    enum = CONTRACT.read_text().partition("enum ErrorReason {")[2].partition("\n}")[0]
    matches = re.finditer(r"((?:^  //.*\n)+)^  ERROR_REASON_(\w+) = ", enum, re.M)
    return {match[2]: re.sub(r"\s*//\s*", " ", match[1]).strip() for match in matches}


def _raised_classes() -> dict[str, set[str]]:
    """Returns the names of the classes by the reasons that the sources give them, or with which they write a Failure
    into the journal."""
    found: dict[str, set[str]] = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text()
            if "reason=" not in source and "Failure(" not in source:  # to parse all sources takes seconds
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and (raised := _raised(node)):
                    found.setdefault(raised[0], set()).add(raised[1])
    return found


def _raised(call: ast.Call) -> tuple[str, str] | None:
    """Returns reason and class of a call that creates an error or a Failure."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name == "Failure":
        texts = [str(argument.value) for argument in call.args[:2] if isinstance(argument, ast.Constant)]
        return (texts[1], _BY_CODE[texts[0]]) if len(texts) == 2 else None
    reason = next((keyword.value for keyword in call.keywords if keyword.arg == "reason"), None)
    return (str(reason.value), name) if name in _BY_NAME and isinstance(reason, ast.Constant) else None


def _first_paragraph(text: str) -> str:
    return text.partition("\n\n")[0].replace("\n", " ")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(page())
