"""Files as results of tools: front ends and MCP clients get the file, a model gets its text, or its type and size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from typing_extensions import override

TEXTUAL: Final = re.compile(r"text/|application/(json|xml|yaml|javascript)$|.*\+(json|xml)$")
"""Media types whose files are text."""


@dataclass(frozen=True, slots=True)
class Media:
    """A file of type `media_type`, such as `application/pdf`."""

    data: bytes
    media_type: str = "application/octet-stream"

    def __str__(self) -> str:
        """Returns what a model reads."""
        return self.text if self.text is not None else self.label

    @property
    def text(self) -> str | None:
        """The content, if a model reads it."""
        return None

    @property
    def label(self) -> str:
        """The type and the size, in place of a content that is not text."""
        return f"[{self.media_type}, {len(self.data):,} bytes]"

    @classmethod
    def among(cls, content: object) -> Iterator[Self]:
        """Yields the files of this class in a tool's content: the content itself, or the items of a list."""
        for item in content if isinstance(content, (list, tuple)) else (content,):
            if isinstance(item, cls):
                yield item


@dataclass(frozen=True, slots=True)
class Audio(Media):
    """A sound file of type `media_type`, such as `audio/wav`."""

    media_type: str = "audio/wav"


@dataclass(frozen=True, slots=True)
class EmbeddedResource(Media):
    """A resource with its content. `uri` names it; a model reads its text if `media_type` is one of text."""

    media_type: str = "text/plain"
    uri: str = ""

    @property
    @override
    def text(self) -> str | None:
        """The content, None if `media_type` is not one of text or the content is not UTF-8."""
        if not TEXTUAL.match(self.media_type):
            return None
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None

    @property
    @override
    def label(self) -> str:
        return f"[{self.media_type}, {len(self.data):,} bytes: {self.uri}]"
