"""Which runs `archon runs` lists."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SEARCHED: Final = 10_000
"""Newest runs that are looked through for paused ones."""

MAX_SEARCH: Final = 200
"""Characters of a text to search for."""


class StateName(StrEnum):
    """The states of a run, as the command line names them."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """At most `limit` runs, of a session if one is named, in one of `states` if there are any, submitted after `since`
    (seconds since the epoch), that have the text `search` unless it is empty."""

    limit: int
    session: str
    states: Sequence[StateName]
    since: float
    search: str

    @classmethod
    def of(cls, *, limit: int, session: str, states: Sequence[StateName], since: str, search: str) -> RunFilter:
        """Returns the filter for the options of a command. Raises CliError if `since` is no time, or the text to search
        for is too long."""
        if len(search) > MAX_SEARCH:
            raise CliError(f"the text of --search has {len(search):,} characters, at most {MAX_SEARCH}", code=USAGE)
        return cls(limit, session, states, _time(since) if since else 0.0, search)

    @property
    def text(self) -> str:
        """The filter as the end of a sentence: ` in session blue`."""
        parts = [f" in session {self.session}"] if self.session else []
        parts += [f" in state {' or '.join(self.states)}"] if self.states else []
        parts += [" since then"] if self.since else []
        parts += [f" with the text {self.search!r}"] if self.search else []
        return "".join(parts)

    async def list(self, client: Client) -> list[Run]:
        """Returns the runs of the list, in which a paused run has the state that it was paused in."""
        from archon.types import TaskState

        stored = {state for state in self.states if state is not StateName.PAUSED}
        if StateName.PAUSED in self.states:
            stored |= {StateName.SUBMITTED, StateName.WORKING, StateName.INPUT_REQUIRED}
        states = [TaskState[state.name] for state in sorted(stored)]
        limit = _SEARCHED if StateName.PAUSED in self.states else self.limit
        listed = await client.list_runs(
            limit=limit, session_id=self.session, states=states, text=self.search, since=self.since
        )
        return [run.proto for run in listed]

    def admits(self, run: Run) -> bool:
        """Whether the run, with all its fields, is one of the wanted."""
        from archon_services.reports.state_names import run_state_name

        return not self.states or run_state_name(run).replace(" ", "-") in self.states


def _time(text: str) -> float:
    """Converts an age such as 30m, or a local time in ISO 8601, to seconds since the epoch."""
    if (match := re.fullmatch(r"(\d{1,9})([smhd])", text.strip())) is not None:
        return time.time() - int(match[1]) * _SECONDS[match[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise CliError(
            f"--since {text!r} is neither an age such as 30m, 2h or 7d nor a time such as 2026-01-31T12:00", code=USAGE
        ) from None
