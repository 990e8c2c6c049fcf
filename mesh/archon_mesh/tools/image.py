"""Images as results of tools: front ends show the image, a model gets its type and size."""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.tools.media import Media


@dataclass(frozen=True, slots=True)
class Image(Media):
    """An image file of type `media_type`, such as `image/png`."""

    media_type: str = "image/png"
