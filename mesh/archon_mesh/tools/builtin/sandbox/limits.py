"""The resources that a sandboxed program may use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from archon.errors import InvalidArgument

MB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one program. A program that exceeds `seconds` or `output_bytes` is killed with all that it started."""

    seconds: float = 10.0
    """Time from start to end."""

    cpu_seconds: int = 10
    """CPU time of each process."""

    memory_bytes: int = 256 * MB
    """Address space of each process."""

    processes: int = 4
    """Processes and threads at a time, the program itself included."""

    file_bytes: int = 16 * MB
    """Bytes of all files in /tmp, which is empty at first, lies in memory, and is gone afterwards."""

    open_files: int = 64
    output_bytes: int = 64 * 1024
    """Bytes of standard output and of standard error, each."""

    code_bytes: int = 1 * MB

    def __post_init__(self) -> None:
        """Raises InvalidArgument unless every limit is above 0."""
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise InvalidArgument(f"invalid limits: {each.name} must be above 0")


DEFAULT: Final = SandboxLimits()
"""The limits of a program for which no others are set."""
