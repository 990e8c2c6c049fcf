"""Sums of what attempts have spent."""

from __future__ import annotations

from typing import Final

from archon.api.common.v1 import common_pb2

MAX_COUNT: Final = 2**53 - 1
"""The largest number that every JSON reader keeps exactly."""

COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "model_calls",
    "tool_calls",
    "cost_micro_usd",
    "cached_input_tokens",
    "cache_write_tokens",
)
"""The fields of a usage that are added."""


def add_usage(total: common_pb2.Usage, usage: common_pb2.Usage) -> None:
    """Adds counts, which agents report themselves; the sum stays within what a field holds."""
    for field, count in usage.ListFields():
        if field.name in COUNTS:
            setattr(total, field.name, min(MAX_COUNT, getattr(total, field.name) + max(0, count)))
        elif field.name == "estimated":
            total.estimated = True
