"""How a command fails: one clear sentence, a hint, and an exit code that means something."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from archon import errors

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_FOUND: Final = 4
INTERRUPTED: Final = 130

EXIT_CODES: Final = """\b
Exit codes:
  0    done
  1    it failed, or the run did, or was cancelled
  2    wrong usage
  3    the mesh can't be reached
  4    not found: a run, a role, a capability
  130  ended by Ctrl-C"""

START_HINT: Final = "`archon up` starts a mesh here; ARCHON_HOME names the folder of another one."


class CliError(Exception):
    """Ends the command with this sentence, this hint and this exit code."""

    def __init__(self, message: str, *, hint: str = "", code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Interrupted(Exception):
    """A signal came and the command has tidied up; `code` is its exit code."""

    def __init__(self, code: int = INTERRUPTED) -> None:
        super().__init__()
        self.code = code


def report(error: BaseException) -> int:
    """Says on standard error what went wrong; returns the exit code."""
    if isinstance(error, Interrupted):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    message, hint, code = _explain(error)
    sys.stderr.write(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))
    if os.environ.get("ARCHON_DEBUG"):
        traceback.print_exception(error)
    return code


def _explain(error: BaseException) -> tuple[str, str, int]:
    if explain := getattr(error, "format_message", None):  # Typer's own: its classes moved between its versions
        path = getattr(getattr(error, "ctx", None), "command_path", "archon")
        return explain().rstrip("."), f"`{path} --help` says what it takes.", USAGE
    match error:
        case CliError():
            return str(error), error.hint, error.code
        case errors.RunExpired():
            return str(error), "`archon show` still has its answers.", FAILED
        case errors.UnknownRun():
            return str(error), "`archon runs` lists the runs.", NOT_FOUND
        case errors.UnknownRole() | errors.UnknownCapability():
            return str(error), "`archon agents` lists who is there and what they can do.", NOT_FOUND
        case errors.NotFound():
            return str(error), "", NOT_FOUND
        case errors.InvalidArgument():
            return str(error), "", USAGE
        case errors.ArchonError(reason="ALREADY_UP"):
            return str(error), "`archon down` ends it; `archon run` and the others use it as it is.", FAILED
        case errors.ArchonError(reason="START_FAILED"):
            return str(error), "", FAILED
        case errors.Unavailable() | errors.DeadlineExceeded():
            return str(error), "", UNREACHABLE
        case errors.ArchonError():
            return str(error), "", FAILED
    return f"{type(error).__name__}: {error}".rstrip(": "), "ARCHON_DEBUG=1 shows where it happened.", FAILED
