"""Errors of the command line: a message of one line, a hint, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from typing import Final, TextIO

from archon import errors
from archon_services.cli.wrapping import wrapped

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_FOUND: Final = 4
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""As of a program that SIGPIPE ends."""

EXIT_CODES: Final = """\b
Exit codes:
  0    success
  1    the command or the run failed, or the run was cancelled
  2    invalid usage
  3    the mesh is unreachable
  4    not found: a run, a role, a capability, an item or a context
  130  interrupted by Ctrl-C
  141  the reader of the output has ended, as in `archon runs | head -1`"""

EXPIRED_HINT: Final = (
    "`archon show` prints its summary. ARCHON_COMPACT_AFTER, or a rule of ARCHON_RETENTION, keeps details longer."
)

START_HINT: Final = "Start a mesh with `archon up`, or set ARCHON_HOME to the folder of a running one."


class CliError(Exception):
    """Ends the command with this message, hint and exit code."""

    def __init__(self, message: str, *, hint: str = "", code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Interrupted(Exception):
    """A signal ended the command after its cleanup; `code` is the exit code."""

    def __init__(self, code: int = INTERRUPTED) -> None:
        super().__init__()
        self.code = code


def report_error(error: BaseException) -> int:
    """Prints the error to standard error and returns the exit code. Interruptions print nothing."""
    if isinstance(error, Interrupted):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # the reader of the output has seen enough, as `head` does
        return BROKEN_PIPE
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is the message
        return _print_help(error.format_message())  # type: ignore[attr-defined]
    message, hint, code = _describe(error)
    text = f"error: {message}" + (f"\nhint: {hint}" if hint else "")
    try:
        sys.stderr.write(wrapped(text, stderr=True) + "\n")
        if os.environ.get("ARCHON_DEBUG"):
            traceback.print_exception(error)
    except OSError:
        pass  # a closed stream or a full device: the exit code tells
    return code


def _print_help(text: str) -> int:
    with suppress(OSError):
        sys.stderr.write(text.rstrip("\n") + "\n")
    return USAGE


def flush_output(code: int | None) -> int:
    """Writes the rest of the output; returns the exit code: `code`, unless the output cannot be written."""
    result = code or OK
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        result = BROKEN_PIPE
        _give_up(sys.stdout)
    except OSError as error:
        if not code:  # else an error was reported, which may be this one
            result = report_error(CliError(f"cannot write the output: {error.strerror}"))
        _give_up(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)
    return result


def _give_up(stream: TextIO) -> None:
    """Python would write the rest again when it ends, print a traceback, and replace the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _describe(error: BaseException) -> tuple[str, str, int]:
    """Returns message, hint and exit code."""
    if format_message := getattr(error, "format_message", None):  # Typer's own: its classes moved between its versions
        path = getattr(getattr(error, "ctx", None), "command_path", "archon")
        text = format_message().rstrip(".").replace("Value error, ", "")
        return text[:1].lower() + text[1:], f"`{path} --help` lists the arguments and options.", USAGE
    match error:
        case CliError():
            return str(error), error.hint, error.code
        case errors.RunExpired():
            return str(error), EXPIRED_HINT, FAILED
        case errors.UnknownRun():
            return str(error), "`archon runs` lists the runs.", NOT_FOUND
        case errors.UnknownRole() | errors.UnknownCapability():
            return str(error), "`archon agents` lists the registered roles and their capabilities.", NOT_FOUND
        case errors.NotFound():
            return str(error), "", NOT_FOUND
        case errors.InvalidArgument():
            return str(error), "", USAGE
        case errors.ArchonError(reason="ALREADY_UP"):
            return str(error), "Use it as it is, or stop it with `archon down`.", FAILED
        case errors.ArchonError(reason="START_FAILED"):
            return str(error), "", FAILED
        case errors.Unavailable() | errors.DeadlineExceeded():
            return str(error), "", UNREACHABLE
        case errors.ArchonError():
            return str(error), "", FAILED
        case OSError(filename=None, errno=errno.ENOSPC):
            return f"cannot write the output: {error.strerror}", "", FAILED
        case OSError(strerror=str(reason)) if reason:
            return reason + (f": {error.filename}" if error.filename else ""), "", FAILED
    return f"{type(error).__name__}: {error}".rstrip(": "), "Set ARCHON_DEBUG=1 to print the traceback.", FAILED
