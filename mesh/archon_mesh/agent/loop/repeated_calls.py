"""Notices a model that makes the same tool call again and again, with the same result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from archon.errors import FailedPrecondition
from archon.failure_kinds import REASONING_DEGRADATION

MAX_REFUSALS: Final = 2
"""Refused calls in a row after which the model is asked for its final answer."""

_SAME: Final = "call another tool, change the arguments, or give your final answer from what you know"

CallKey = tuple[str, str]
"""A tool's name and its arguments as canonical JSON."""


class RepeatedCall(FailedPrecondition):
    """The call was not made: the same call had the same result in each of the last iterations."""

    default_kind = REASONING_DEGRADATION


def key_of(tool_name: str, arguments: Mapping[str, Any]) -> CallKey:
    """Returns a key that equal calls share."""
    return tool_name, json.dumps(arguments, sort_keys=True, default=str)


class RepeatedCalls:
    """The calls of the last iteration of a run, and in how many iterations in a row each was made with this result.

    A call is refused after `limit` iterations; 0 refuses none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: dict[CallKey, tuple[str, int]] = {}
        self._refusals = 0

    @property
    def exhausted(self) -> bool:
        """Whether the model went on making refused calls."""
        return self._refusals >= MAX_REFUSALS

    def refusal(self, key: CallKey) -> RepeatedCall | None:
        """Returns the error for a call that is not to be made again, or None."""
        _, times = self._last.get(key, ("", 0))
        if not self._limit or times < self._limit:
            return None
        return RepeatedCall(
            f"{key[0]} was called with these arguments {times} times in a row, with the same result each time: {_SAME}",
            metadata={"tool": key[0], "times": str(times)},
        )

    def note(self, results: Iterable[tuple[CallKey, str]]) -> None:
        """Takes the results of an iteration, by call."""
        before, self._last = self._last, {}
        refused = False
        for key, result in results:
            earlier, times = before.get(key, ("", 0))
            if self._limit and times >= self._limit:
                self._last[key] = earlier, times
                refused = True
            else:
                self._last[key] = result, times + 1 if times and earlier == result else 1
        self._refusals = self._refusals + 1 if refused else 0
