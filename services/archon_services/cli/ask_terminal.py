"""Asks the person at the terminal a question of a run, and sends the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.submission import Goal
    from archon_services.cli.render.questions import PendingQuestion

Send = Callable[["Goal", str], "Run"]
"""Sends an answer and the name of its decision."""

_DECISIONS: Final = {
    "a": "approve",
    "approve": "approve",
    "y": "approve",
    "yes": "approve",
    "r": "reject",
    "reject": "reject",
    "n": "reject",
    "no": "reject",
    "m": "modify",
    "modify": "modify",
}
HOW: Final = "a: approve, r REASON: reject, m FILE: modify"
"""How an approval is answered."""


def print_question(question: PendingQuestion) -> None:
    """Prints a question to standard error."""
    from archon_services.cli.render.output import print_stderr
    from archon_services.reports.texts import strip_controls

    print_stderr(strip_controls(f"{question.role} asks:"))
    for text in question.lines():
        print_stderr(strip_controls(f"  {text}"))


def ask_terminal(question: PendingQuestion, send: Send, *, may_skip: bool = False) -> Run | None:
    """Reads the answer from the terminal, repeatedly until the orchestrator accepts it. Returns the run after it; None
    if there is no answer: at the end of the input, or after an empty line, if it `may_skip` or the question is an
    approval."""
    from archon.errors import InvalidArgument
    from archon_services.cli.render.output import print_stderr
    from archon_services.cli.text_input import decode_utf8
    from archon_services.reports.texts import strip_controls

    while True:
        line = _read_hidden() if question.is_secret else _read_line(HOW if question.is_approval else "")
        if not line:
            print_stderr("")
            return None
        answer = decode_utf8(line, "the answer").strip()
        if not answer:
            if question.is_approval or may_skip:
                return None
            continue
        try:
            if question.is_approval:
                return send(*read_decision(answer))
            return send(sealed(question, answer) if question.is_secret else answer, "")
        except (InvalidArgument, CliError) as error:
            print_stderr(strip_controls(str(error)))


def sealed(question: PendingQuestion, answer: Goal) -> str:
    """Encrypts a secret answer, so that only the agent that asks can read it."""
    from archon.secret_answers import seal

    if not isinstance(answer, str):
        raise CliError("the answer to this question is a text", code=USAGE)
    return seal(question.schema_json, answer.strip())


def read_decision(line: str) -> tuple[str, str]:
    """Returns the text and the decision of a line. Raises CliError if it names no decision."""
    word, _, rest = line.partition(" ")
    decision = _DECISIONS.get(word.lower().rstrip(":"))
    if decision is None:
        raise CliError(f"answer with {HOW}", code=USAGE)
    if decision != "modify":
        return rest.strip(), decision
    if not rest.strip():
        raise CliError("modify needs a file with the replacement: m FILE", code=USAGE)
    path = Path(rest.strip())
    try:
        return path.read_text(encoding="utf-8-sig"), decision
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"cannot read {path}: {error}", code=USAGE) from None


def _read_line(how: str) -> bytes:
    sys.stderr.write(f"{how}\n> " if how else "> ")
    sys.stderr.flush()
    return sys.stdin.buffer.readline()


def _read_hidden() -> bytes:
    """Reads a line that the terminal does not show."""
    from getpass import getpass

    try:
        return getpass("> ", stream=sys.stderr).encode() + b"\n"
    except EOFError:
        return b""
