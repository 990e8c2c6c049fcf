"""The header `traceparent` of W3C Trace Context: https://www.w3.org/TR/trace-context/#traceparent-header."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FORM: Final = re.compile(r"^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$")
_SAMPLED: Final = 0x01


class TraceParent(NamedTuple):
    """A place in a trace: the parent of spans that continue there."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    sampled: bool
    """Whether spans of the trace are recorded."""

    @classmethod
    def parse(cls, text: str) -> TraceParent | None:
        """Returns None if the text is not a valid header: it then counts as absent."""
        match = _FORM.match(text.strip())
        if match is None:
            return None
        version, trace_id, span_id, flags, rest = match.groups()
        if version == "ff" or (version == "00" and rest) or not int(trace_id, 16) or not int(span_id, 16):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def is_plain_sampled(text: str) -> bool:
    """Returns whether a header looks like one of version 00 of a trace that is recorded. Cheap; `parse` tells whether
    it is valid."""
    return len(text) == 55 and text.startswith("00-") and text[54] in "13579bdf"


def is_plain_unsampled(text: str) -> bool:
    """Returns whether a header looks like one of version 00 of a trace that is not recorded. Cheap, as above."""
    return len(text) == 55 and text.startswith("00-") and text[54] in "02468ace"
