"""The answer of an agent as it is generated."""

from __future__ import annotations

import sys
from typing import Final

from archon_services.cli.render.output import print_stderr
from archon_services.reports.texts import strip_controls

PATIENCE: Final = 5.0
"""Seconds without text of an answer after which a terminal says that it is slow."""


class AnswerOutput:
    """Writes an answer to standard output while it is generated."""

    def __init__(self, name: str) -> None:
        self._begun = False
        self._asked = False
        self._name = name

    def write(self, text: str) -> None:
        """Writes the next piece of the answer."""
        if not self._begun and sys.stdout.isatty():
            sys.stdout.write(f"{self._name}: ")
        self._begun = True
        sys.stdout.write(strip_controls(text))
        sys.stdout.flush()

    def interrupt(self) -> None:
        """Ends the line before a question to the person: it is not the agent that is slow from now on."""
        self._asked = True
        if self._begun:
            self.end("")
            self._begun = False

    def report_wait(self) -> None:
        """Says on a terminal that there is no answer yet, unless there is."""
        if not self._begun and not self._asked and sys.stderr.isatty():
            print_stderr(f"No answer after {PATIENCE:g} s: the model is slow, or a tool is. Ctrl-C stops it.")

    def finish(self, answer: str) -> None:
        """Writes the whole answer if no piece of it was written before."""
        if not self._begun:
            self.write(answer)
        self.end("")

    def end(self, remark: str) -> None:
        """Ends the line, if there is one."""
        if self._begun or remark:
            sys.stdout.write(f"{remark}\n")
            sys.stdout.flush()
