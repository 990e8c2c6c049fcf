"""Why a connection to an MCP server ended, as far as the package `mcp` does not say: the exit and last output of the
process, and the answer of an HTTP server."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from errno import ENOEXEC
from http import HTTPStatus
from typing import Final

from archon.errors import (
    ArchonError,
    FailedPrecondition,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from archon.failure_kinds import TOOL_NETWORK
from archon_mesh.llm.retry_delay import retry_delay

MAX_LINES: Final = 10
"""Lines of a server's standard error that its end is reported with, the last."""

MAX_WORDS: Final = 1_000
"""Characters of an answer that is reported."""

_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127
"""Exit codes of a shell whose command cannot be started (POSIX, Shell Command Language, 2.8.2)."""

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}  # http.client has them, too, and takes 0.2 MB
_TEMPORARY: Final = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY}


@dataclass(slots=True)
class Diagnosis:
    """The known facts about one connection."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES), repr=False)
    """The last lines of the standard error of a process."""
    exit_code: int | None = None
    """The exit code of a process that ended by itself; negative: the signal that killed it."""
    status: int = 0
    """The status of the last HTTP answer that was an error; 0 if the last answer was none."""
    words: str = field(default="", repr=False)
    """The content of that answer."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def end(self) -> str:
        """How a process ended, and its last words: `ended with exit code 3: no token`; empty if it did not end."""
        if self.exit_code is None:
            return ""
        how = f"with exit code {self.exit_code}" if self.exit_code >= 0 else f"by {_signal_name(-self.exit_code)}"
        said = "\n".join(self.lines).strip()
        return f"ended {how}: {said}" if said else f"ended {how}, and wrote nothing to its standard error"

    def death(self, server: str) -> ArchonError | None:
        """Returns the error for a process that ended by itself; None if it did not. Permanent is one that a shell could
        not start."""
        if not self.end:
            return None
        message = f"MCP server {server} {self.end}"
        if self.exit_code in (_NOT_EXECUTABLE, _NOT_FOUND):
            return FailedPrecondition(message)
        return Unavailable(message, kind=TOOL_NETWORK)

    def refusal(self, server: str) -> ArchonError | None:
        """Returns the error for an answer that refused a request; None if there is no such answer. Permanent are those
        that stay the same if they are asked for again."""
        if not self.status:
            return None
        message = f"MCP server {server} answers {self.status} {_PHRASES.get(self.status, '')}".rstrip()
        if words := " ".join(self.words.split())[:MAX_WORDS]:
            message = f"{message}: {words}"
        if self.status == HTTPStatus.UNAUTHORIZED:
            return Unauthenticated(message)
        if self.status == HTTPStatus.FORBIDDEN:
            return PermissionDenied(message)
        if self.status == HTTPStatus.TOO_MANY_REQUESTS:
            return ResourceExhausted(message, retry_delay=retry_delay(self.headers, None), kind=TOOL_NETWORK)
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.status in _TEMPORARY:
            return Unavailable(message, retry_delay=retry_delay(self.headers, None), kind=TOOL_NETWORK)
        return FailedPrecondition(message)


def start_failure(server: str, command: str, cwd: str | None, error: OSError) -> ArchonError:
    """Returns the error for a process that could not be started: permanent, unless the system lacks something."""
    message = f"MCP server {server} cannot be started: "
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        is_folder = cwd is not None and error.filename == cwd
        return FailedPrecondition(f"{message}there is no {'folder ' if is_folder else ''}{error.filename!r}")
    if isinstance(error, PermissionError) or error.errno == ENOEXEC:
        return FailedPrecondition(f"{message}{command!r} is not executable")
    return Unavailable(f"{message}{error.strerror or error}", kind=TOOL_NETWORK)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
