"""An image that a tool made: front ends are shown it, a model is told that there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """`data` are the bytes of a file of `media_type`, such as `image/png`."""

    data: bytes
    media_type: str = "image/png"

    def __str__(self) -> str:
        return f"[{self.media_type}, {len(self.data):,} bytes]"

    @staticmethod
    def among(content: object) -> Iterator[Image]:
        """The images in a tool's content: itself, or in a list."""
        for one in content if isinstance(content, (list, tuple)) else (content,):
            if isinstance(one, Image):
                yield one
