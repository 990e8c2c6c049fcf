"""Writes the report of `archon prompts` call by call, to standard output or a file: a run may have many large calls."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from typing_extensions import override

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon_services.cli.errors import CliError
from archon_services.cli.render.output import console, is_terminal
from archon_services.cli.render.prompt_report import Line, record_document, record_lines
from archon_services.cli.render.prompt_sections import Prompt
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from rich.console import Console


class PromptOutput(Protocol):
    """Receives the model calls of a run in order, each with its number in its task; then `end`, with a text about calls
    that are not recorded, and advice that concerns all calls."""

    def call(self, record: RunRecord, prompt: Prompt, number: int) -> None: ...
    def end(self, note: str, advice: Sequence[str] = ()) -> None: ...


class _Stream:
    """A file that is created at its first use, or standard output. Raises CliError if the file cannot be written."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._stack = ExitStack()
        self._opened: TextIO | None = None

    def write(self, text: str) -> None:
        try:
            if self._opened is None:
                self._opened = (
                    sys.stdout
                    if self._file is None
                    else self._stack.enter_context(self._file.open("w", encoding="utf-8"))
                )
            self._opened.write(text)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Closes the file, and says on standard output that it is written."""
        self.write("")
        if self._file is None:
            return
        try:
            self._stack.close()
        except OSError as error:
            self._fail(error)
        print(f"Wrote {self._file}.")

    def _fail(self, error: OSError) -> None:
        if self._file is None:
            raise error
        raise CliError(f"cannot write {self._file}: {error.strerror}") from error


class JsonOutput(PromptOutput):
    """One JSON array."""

    def __init__(self, file: Path | None) -> None:
        self._stream = _Stream(file)
        self._separator = "["

    @override
    def call(self, record: RunRecord, prompt: Prompt, number: int) -> None:
        document = json.dumps(record_document(record, prompt, number), indent=2, ensure_ascii=False)
        self._stream.write(f"{self._separator}\n{textwrap.indent(document, '  ')}")
        self._separator = ","

    @override
    def end(self, note: str, advice: Sequence[str] = ()) -> None:
        self._stream.write("[]\n" if self._separator == "[" else "\n]\n")
        self._stream.close()


class TextOutput(PromptOutput):
    """The lines of the report; `with_text` also the texts of the messages. Coloured on a terminal."""

    def __init__(self, file: Path | None, *, with_text: bool) -> None:
        self._stream = _Stream(file)
        self._with_text = with_text
        self._console: Console | None = console() if file is None and is_terminal() else None

    @override
    def call(self, record: RunRecord, prompt: Prompt, number: int) -> None:
        for line in record_lines(record, prompt, number, with_text=self._with_text):
            self._line(line)

    @override
    def end(self, note: str, advice: Sequence[str] = ()) -> None:
        for line in advice:
            self._line((f"suggestion: {line}", "cyan"))
        if note:
            self._line((note, ""))
        self._stream.close()

    def _line(self, line: Line) -> None:
        text, style = line
        if self._console is None:
            self._stream.write(f"{text}\n")
            return
        from rich.text import Text

        self._console.print(Text(strip_controls(text), style=style), soft_wrap=True)
