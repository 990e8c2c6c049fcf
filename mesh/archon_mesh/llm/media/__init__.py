"""Files in requests to models: what a model takes, what it gets of the rest, and what its server refuses."""

from archon_mesh.llm.media.load import load_file
from archon_mesh.llm.media.profile import EVERYTHING, NOTHING, MediaProfile, media_of
from archon_mesh.llm.media.sent_files import SentFiles

__all__ = ["EVERYTHING", "NOTHING", "MediaProfile", "SentFiles", "load_file", "media_of"]
