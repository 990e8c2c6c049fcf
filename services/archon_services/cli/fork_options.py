"""The options of `archon fork` and `archon rerun` that change the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.text_input import decode_utf8

_INPUT: Final = ".input"

EditOption = Annotated[
    list[str] | None,
    typer.Option(
        "--edit-answer",
        metavar="TASK=TEXT",
        help="An answer in place of the recorded one; @FILE reads it. TASK is a role, a step or an id. Repeatable.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say which tasks are executed, and why; start no run.")]


def read_answers(values: Iterable[str]) -> dict[str, str]:
    """Returns the answers by task. Raises CliError if a value is not TASK=TEXT, names a task twice or has no text, or
    if its file cannot be read."""
    return _pairs(values, "--edit-answer", "writer=Another text")


def read_inputs(values: Iterable[str]) -> dict[str, str]:
    """Returns the inputs by task, of values such as writer.input=TEXT. Raises CliError as `read_answers` does."""
    inputs: dict[str, str] = {}
    for name, text in _pairs(values, "--set", "writer.input=Another text").items():
        task = name.removesuffix(_INPUT)
        if task == name or not task:
            raise CliError(
                f"invalid --set {name!r}: only the input of a task can be set, as in writer.input=TEXT", code=USAGE
            )
        inputs[task] = text
    return inputs


def _pairs(values: Iterable[str], option: str, example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        name = name.strip()
        if not equals or not name:
            raise CliError(f"invalid {option} {value!r}: expected TASK=TEXT, such as {example!r}", code=USAGE)
        if name in pairs:
            raise CliError(f"{option} has {name} twice", code=USAGE)
        pairs[name] = _text(text, f"{option} {name}")
    return pairs


def _text(text: str, what: str) -> str:
    if text.startswith("@"):
        file = Path(text[1:])
        try:
            text = decode_utf8(file.read_bytes(), str(file))
        except OSError as error:
            raise CliError(f"cannot read {file}: {error.strerror}", code=USAGE) from error
    if not text.strip():
        raise CliError(f"{what} has no text", code=USAGE)
    return text
