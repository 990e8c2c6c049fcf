"""The needs of each family of servers of the chat completions API: data in `families.yaml`, found by URL and model."""

from archon_mesh.llm.servers.choose import families, find_media, find_profile, with_media
from archon_mesh.llm.servers.profile import ServerProfile

__all__ = ["ServerProfile", "families", "find_media", "find_profile", "with_media"]
