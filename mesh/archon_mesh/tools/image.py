"""Images as results of tools: front ends show the image, a model gets its type and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """An image file of type `media_type`, such as `image/png`."""

    data: bytes
    media_type: str = "image/png"

    def __str__(self) -> str:
        return f"[{self.media_type}, {len(self.data):,} bytes]"

    @staticmethod
    def among(content: object) -> Iterator[Image]:
        """Yields the images in a tool's content: the content itself, or the items of a list."""
        for item in content if isinstance(content, (list, tuple)) else (content,):
            if isinstance(item, Image):
                yield item
