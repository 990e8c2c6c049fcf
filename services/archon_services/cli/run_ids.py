"""Short forms of run ids: commands take any unique prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SHORT: Final = 12
"""Characters of a run id that are shown."""


def short_length(run_ids: Sequence[str]) -> int:
    """Returns the number of characters by which these ids differ from each other, at least SHORT."""
    length, count = SHORT, len(set(run_ids))
    while len({run_id[:length] for run_id in run_ids}) < count:
        length += 1
    return length
