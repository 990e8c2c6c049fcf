"""The input of a process at its start: standard streams that may be closed, and variables of the environment as editors
on Windows leave them."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from typing import Final

PREFIXES: Final = ("ARCHON_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "MISTRAL_", "AWS_", "OTEL_")
"""Of the variables that Archon and its models read."""

_OTHERS: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "xdg_config_home"})

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_standard_streams() -> None:
    """Opens the null device in place of standard streams that are closed (`>&-`): Python has None for them, and the
    next file or socket would get their number. Idempotent."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - as long as the process
            setattr(sys, name, stream)


def clean_environment(environment: MutableMapping[str, str] | None = None) -> None:
    """Removes carriage returns, blanks and byte order marks around the values of the variables that Archon reads, in
    this process by default. Idempotent."""
    variables = os.environ if environment is None else environment
    for name, value in list(variables.items()):
        if name.startswith(PREFIXES) or name.lower() in _OTHERS:
            cleaned = value.removeprefix("\ufeff").strip()
            if cleaned != value:
                variables[name] = cleaned
