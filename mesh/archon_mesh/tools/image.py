"""Images: front ends show those in results of tools, models that take images see them."""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.core.media import Media


@dataclass(frozen=True, slots=True)
class Image(Media):
    """An image file of type `media_type`, such as `image/png`."""

    media_type: str = "image/png"
