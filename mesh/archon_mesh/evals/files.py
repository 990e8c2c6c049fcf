"""Files of evals: data sets in JSON Lines, and results in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from archon.errors import AlreadyExists, InvalidArgument, NotFound
from archon_mesh.evals.case import Case, parse_cases, to_lines
from archon_mesh.evals.report import EvalReport, parse_report

MAX_FILE: Final = 512 * 1024 * 1024
"""Bytes of a file that is read."""


def read_cases(file: str | Path) -> list[Case]:
    """Returns the cases of a data set. Raises NotFound if there is no such file, InvalidArgument if it cannot be read
    or a line is no case."""
    return parse_cases(_read(Path(file)), str(file))


def add_case(file: str | Path, case: Case, *, replace: bool = False) -> int:
    """Adds a case to a data set, which is created if it is missing, and returns the number of its cases.

    Raises AlreadyExists if it has a case with this id, unless `replace` is set, and InvalidArgument as `read_cases`
    does.
    """
    path = Path(file)
    cases: Sequence[Case] = read_cases(path) if path.exists() and path.read_text(encoding="utf-8").strip() else []
    if any(each.id == case.id for each in cases):
        if not replace:
            raise AlreadyExists(f"{path} has a case {case.id!r} already")
        text = to_lines(case if each.id == case.id else each for each in cases)
        _write(path, text)
        return len(cases)
    ends = not cases or path.read_text(encoding="utf-8").endswith("\n")
    with path.open("a", encoding="utf-8") as opened:
        opened.write(("" if ends else "\n") + case.line() + "\n")
    return len(cases) + 1


def read_report(file: str | Path) -> EvalReport:
    """Returns the results in a file. Raises NotFound if there is no such file, InvalidArgument if it has no results."""
    return parse_report(_read(Path(file)), str(file))


def write_report(report: EvalReport, file: str | Path) -> None:
    """Writes the results to a file, as a baseline of later evals. Raises OSError."""
    _write(Path(file), json.dumps(report.document(), indent=2, ensure_ascii=False) + "\n")


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE:
            raise InvalidArgument(f"{path} is larger than {MAX_FILE:,} bytes")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path} is not text in UTF-8") from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    """Replaces a file as a whole: a reader sees the old content or the new one."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
