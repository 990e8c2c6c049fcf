"""Files: in messages to a model, and as results of tools. Front ends and MCP clients get the file, and so does a model
that takes it; any other model gets its text, or a label with its type and size."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, Self
from urllib.parse import unquote_to_bytes, urlsplit

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.core.media_types import TEXTUAL, UNKNOWN, canonical_type, sniffed_type, type_of_name

MAX_NAME: Final = 200
"""Characters of a name in a label."""

MAX_URL: Final = 8_000
"""Characters of a URL that is not a data URL."""

Kind = Literal["image", "audio", "text", "file"]

_DATA_URL: Final = re.compile(r"data:([^;,]*)([^,]*),", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Media:
    """A file of type `media_type`, such as `application/pdf`: its bytes, or an http or https `url` of it, which the
    provider of the model fetches. `name` is the name of the file, for display.

    A data URL is read into `data`. Raises InvalidArgument for any other URL.
    """

    data: bytes = field(repr=False)
    media_type: str = UNKNOWN
    name: str = field(default="", kw_only=True)
    url: str = field(default="", kw_only=True)
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.url[:5].lower() == "data:":
            media_type, data = _of_data_url(self.url)
            object.__setattr__(self, "data", data)
            object.__setattr__(self, "url", "")
            if self.media_type == UNKNOWN:
                object.__setattr__(self, "media_type", media_type)
        elif self.url and not _is_http(self.url):
            raise InvalidArgument(f"invalid URL of a file {self.url[:MAX_NAME]!r}: expected http://, https:// or data:")

    def __str__(self) -> str:
        """Returns the text for a model that does not take the file."""
        return self.text if self.text is not None else self.label

    @classmethod
    def at(cls, url: str, media_type: str = UNKNOWN, *, name: str = "") -> Self:
        """Returns the file at a URL. Its type follows from the end of the URL's path, unless given."""
        file = cls(b"", media_type, name=name, url=url)
        return replace(file, media_type=type_of_name(urlsplit(url).path)) if file.media_type == UNKNOWN else file

    @property
    def text(self) -> str | None:
        """The content, if a model reads it."""
        return None

    @property
    def label(self) -> str:
        """The name, the type, and the size or the URL, in place of a content that is not text."""
        name = " ".join(self.name.split())[:MAX_NAME]
        if self.url:
            return f"[{name or 'file'}{'' if self.media_type == UNKNOWN else f', {self.media_type}'}: {self.url}]"
        return f"[{f'{name}, ' if name else ''}{self.media_type}, {len(self.data):,} bytes]"

    @property
    def true_type(self) -> str:
        """The media type that the first bytes tell, whatever was declared: providers compare both. If they tell none,
        the declared one in its registered spelling."""
        return sniffed_type(self.data) or canonical_type(self.media_type)

    @property
    def kind(self) -> Kind:
        """The kind of file that a model takes it for."""
        media_type = self.true_type
        if TEXTUAL.match(media_type):
            return "text"
        major = media_type.partition("/")[0]
        return "image" if major == "image" else "audio" if major == "audio" else "file"

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, or of the URL, in hexadecimal digits."""
        if not self._digest:
            digest = sha256(self.data or self.url.encode(errors="replace")).hexdigest()
            object.__setattr__(self, "_digest", digest)
        return self._digest

    @property
    def encoded(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data).decode()

    @property
    def data_url(self) -> str:
        """The URL, or the bytes as a data URL."""
        return self.url or f"data:{self.true_type};base64,{self.encoded}"

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


def files_of(content: object) -> tuple[Media, ...]:
    """Returns the files in a tool's content that a model does not read as text, as plain Media."""
    return tuple(
        Media(file.data, file.media_type, name=file.name or getattr(file, "uri", ""), url=file.url)
        for file in Media.among(content)
        if file.text is None
    )


def media_to_json(file: Media) -> dict[str, str]:
    """Returns a file as a JSON value, with its bytes in base64."""
    named = {"media_type": file.media_type, "name": file.name, "url": file.url, "data": file.encoded}
    return {key: value for key, value in named.items() if value}


def media_from_json(fields: Mapping[str, Any]) -> Media:
    """Returns the file of a JSON value. Raises ValueError or a subclass of it if it is malformed."""
    texts = {key: str(value) for key, value in fields.items()}
    data = base64.b64decode(texts.get("data", ""), validate=True)
    return Media(data, texts.get("media_type", UNKNOWN), name=texts.get("name", ""), url=texts.get("url", ""))


def _is_http(url: str) -> bool:
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _of_data_url(url: str) -> tuple[str, bytes]:
    """Returns the type and the bytes of a data URL (RFC 2397). Raises InvalidArgument if it is malformed."""
    head = _DATA_URL.match(url)
    if head is None:
        raise InvalidArgument("invalid data URL of a file: expected data:TYPE;base64,DATA")
    data = unquote_to_bytes(url[head.end() :])
    if head[2].lower().endswith(";base64"):
        try:
            data = base64.b64decode(data, validate=True)
        except binascii.Error:
            raise InvalidArgument("invalid data URL of a file: its data is not base64") from None
    return head[1].strip().lower() or "text/plain", data
