"""The files that a model takes, and their limits."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from archon_mesh.core.media import Media

KINDS: Final = {
    "image": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/mpeg"),
    "file": ("application/pdf",),
}
"""The media types of each kind that the APIs of providers take."""

MAX_FILES: Final = 20
MAX_BYTES: Final = 20 * 1024 * 1024
"""Files of a message, and of a request, by default; their bytes. Above 20 images, Anthropic takes only small ones, and
requests of more than 20 MB, or 32 MB with the third that base64 adds, are refused."""

_TYPE: Final = r"^(image|audio|file|[A-Za-z0-9_*]+/[A-Za-z0-9_.+*-]+)$"
"""Or, as in RFC 6838, a type and a subtype. `\\w` would be all letters of Unicode, in tables of 0.4 MB for each use."""

MediaType = Annotated[str, Field(pattern=_TYPE)]
"""A kind (image, audio, file), or a media type, such as image/heic or image/*."""


class MediaProfile(BaseModel):
    """The files that a model takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    media: tuple[MediaType, ...] = Field(
        default=(), description="the files that the model takes: image, audio, file, or media types such as image/heic"
    )
    media_urls: tuple[MediaType, ...] = Field(
        default=("image",), description="the ones that the server fetches from a URL"
    )
    max_message_files: int = Field(default=MAX_FILES, ge=0, description="files of a message")
    max_message_bytes: int = Field(default=MAX_BYTES, ge=0, description="their bytes")
    max_request_files: int = Field(default=MAX_FILES, ge=0, description="files of a request")
    max_request_bytes: int = Field(default=MAX_BYTES, ge=0, description="their bytes")

    def takes(self, file: Media) -> bool:
        """Returns whether the model takes a file of this type, and from where it is."""
        return _among(file.true_type, self.media) and (not file.url or _among(file.true_type, self.media_urls))

    @property
    def accepted(self) -> str:
        """The types that the model takes, in words."""
        return ", ".join(pattern for entry in self.media for pattern in KINDS.get(entry, (entry,))) or "no files"


NOTHING: Final = MediaProfile()
EVERYTHING: Final = MediaProfile(media=("*/*",), media_urls=("*/*",))


def media_of(model: object) -> MediaProfile | None:
    """Returns the files that the client of a model takes; None if the client does not know files."""
    media = getattr(model, "media", None)
    return media if isinstance(media, MediaProfile) else None


def _among(media_type: str, entries: tuple[str, ...]) -> bool:
    patterns = [pattern for entry in entries for pattern in KINDS.get(entry, (entry,))]
    major = media_type.partition("/")[0]
    return any(pattern in (media_type, f"{major}/*", "*/*") for pattern in patterns)
