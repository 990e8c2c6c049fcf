"""Goal checks: functions that say whether a run has reached its goal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Verdict = bool | str
"""True: the goal is reached. False, or the reason as a text: it is not."""

GoalCheck = Callable[[Any, str | None], Verdict | Awaitable[Verdict]]
"""Called as `check(state, answer)` with the AgentState: for each answer of the model, and with None after each
iteration with tool calls. If it returns True there, the model is asked for its answer at once."""
