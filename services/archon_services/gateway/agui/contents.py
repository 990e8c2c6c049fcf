"""Content between AG-UI and Archon: the parts of messages, both ways."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from ag_ui.core import (
    AudioPart,
    DataSource,
    DocumentPart,
    ImagePart,
    PartSource,
    TextPart,
    UrlSource,
    VideoPart,
)

from archon.errors import InvalidArgument
from archon.types.part import Part

MAX_URL: Final = 8_192
"""Characters of a URL that is no `data:` URL."""

_MEDIA: Final[Mapping[str, type[ImagePart] | type[AudioPart] | type[VideoPart]]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
}

ContentPart = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart


def parts_of(content: str | Sequence[ContentPart] | None) -> list[Part]:
    """Returns the content of a message as parts of the mesh. Raises InvalidArgument for bytes that are not base64, and
    for a file at a provider, which no member of the mesh can read."""
    if content is None:
        return []
    if isinstance(content, str):
        return [Part(text=content)]
    return [Part(text=part.text) if isinstance(part, TextPart) else _media(part) for part in content]


def text_of(content: str | Sequence[ContentPart] | None) -> str:
    """Returns the text of a message; names of types stand for its files."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text if isinstance(part, TextPart) else f"[{part.type}]" for part in content)


def media_of(parts: Iterable[Part]) -> list[ContentPart]:
    """Returns the images and files among parts of the mesh, in the form of AG-UI."""
    return [_to_media(part) for part in parts if part.raw is not None or part.url is not None]


def answer_text(parts: Iterable[Part]) -> str:
    """Returns the text and the JSON values of an answer, a line each."""
    return "\n".join(filter(None, (part.text if part.text is not None else part.data_json for part in parts)))


def _media(part: ImagePart | AudioPart | VideoPart | DocumentPart) -> Part:
    source = part.source
    common: dict[str, Any] = {"media_type": source.mime_type or "", "filename": _filename(part.metadata)}
    if isinstance(source, DataSource):
        return Part(raw=_decoded(source.value), **common)
    if not isinstance(source, UrlSource):
        raise InvalidArgument("a file that is at a provider cannot be read by the mesh: send its bytes or a URL")
    if source.value[:5].lower() == "data:":
        return _inline(source.value[5:], common)
    if not source.value.isprintable() or not 0 < len(source.value) <= MAX_URL:
        raise InvalidArgument(f"the URL of a part has 1 to {MAX_URL:,} printable characters")
    return Part(url=source.value, **common)


def _inline(text: str, common: dict[str, Any]) -> Part:
    head, _, data = text.partition(",")
    media_type, *rest = head.split(";")
    raw = unquote_to_bytes(data)
    raw = _decoded(raw.decode("ascii", "replace")) if "base64" in rest else raw
    return Part(raw=raw, **{**common, "media_type": common["media_type"] or media_type})


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidArgument("the data of a part are not base64") from None


def _filename(metadata: Any) -> str:
    name = metadata.get("filename", metadata.get("name", "")) if isinstance(metadata, dict) else ""
    return name.replace("\\", "/").rpartition("/")[2][:200] if isinstance(name, str) else ""


def _to_media(part: Part) -> ContentPart:
    media_type = part.media_type or "application/octet-stream"
    source: PartSource
    if part.raw is not None:
        source = DataSource(value=base64.b64encode(part.raw).decode(), mime_type=media_type)
    else:
        source = UrlSource(value=part.url or "", mime_type=part.media_type or None)
    kind = _MEDIA.get(media_type.partition("/")[0], DocumentPart)
    return kind(source=source, metadata={"filename": part.filename} if part.filename else None)
