"""The history of a run as a file: JSON Lines, the run first, then each step. It verifies with the public keys alone."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from archon.errors import InvalidArgument
from archon.history.chain import RecordedStep

VERSION: Final = 1

MAX_LINE: Final = 128 * 1024 * 1024
"""The most bytes of a line: a step is far smaller."""

MAX_STEPS: Final = 10_000_000
"""The most steps of a run in a file."""


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The history of a run: its steps, its last event, and whether it has ended, as its orchestrator says."""

    run_id: str
    last_seq: int
    ended: bool
    steps: tuple[RecordedStep, ...]


def write_bundle(history: RunHistory, output: BinaryIO) -> None:
    """Writes a history. Keep it private: it has the goal, the answers and the inputs of the run."""
    output.write(head_line(history.run_id, history.last_seq, ended=history.ended))
    for step in history.steps:
        output.write(step_line(step))


def head_line(run_id: str, last_seq: int, *, ended: bool) -> bytes:
    """Returns the first line of a history."""
    return _line({"archon_history": VERSION, "run_id": run_id, "last_seq": last_seq, "ended": ended})


def step_line(step: RecordedStep) -> bytes:
    """Returns a step as a line of JSON; bytes are in base64, links and seals in hexadecimal digits."""
    return _line(
        {
            "base": step.base,
            "last_seq": step.last_seq,
            "link": step.link.hex(),
            "seal": step.seal.hex(),
            "data": base64.b64encode(step.data).decode(),
            "inputs": base64.b64encode(step.inputs).decode(),
        }
    )


def read_bundle(path: Path) -> RunHistory:
    """Reads a file that `write_bundle` has written; it verifies nothing. Raises InvalidArgument if the file is
    something else, OSError if it cannot be read."""
    with path.open("rb") as source:
        return read_lines(source, str(path))


def read_lines(source: IO[bytes], name: str) -> RunHistory:
    """Reads the lines of a history, as `read_bundle` does. Errors call it `name`."""
    lines = _objects(source)
    head = next(lines, {})
    if head.get("archon_history") != VERSION:
        raise InvalidArgument(f"{name} is not the history of a run of a known version")
    try:
        steps = tuple(_step(line) for line in lines)
        return RunHistory(str(head["run_id"]), int(head["last_seq"]), bool(head["ended"]), steps)
    except InvalidArgument:
        raise
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise InvalidArgument(f"{name} has a line that is no step of a run") from None


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _objects(source: IO[bytes]) -> Iterator[dict[str, Any]]:
    for line in _lines(source):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise InvalidArgument("a line of the history is no JSON: it was cut or changed") from None
        if not isinstance(values, dict):
            raise InvalidArgument("a line of the history is no JSON object")
        yield values


def _lines(source: IO[bytes]) -> Iterable[bytes]:
    for _ in range(MAX_STEPS):
        line = source.readline(MAX_LINE)
        if not line:
            return
        yield line
    raise InvalidArgument(f"the history has more than {MAX_STEPS:,} steps")


def _step(values: dict[str, Any]) -> RecordedStep:
    return RecordedStep(
        int(values["base"]),
        int(values["last_seq"]),
        base64.b64decode(values["data"], validate=True),
        base64.b64decode(values["inputs"], validate=True),
        bytes.fromhex(values["link"]),
        bytes.fromhex(values["seal"]),
    )
