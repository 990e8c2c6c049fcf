"""Files in requests to models: a model's limits, the texts for omitted files, and refusals of its server."""

from archon_mesh.llm.media.load import load_file
from archon_mesh.llm.media.profile import EVERYTHING, NOTHING, MediaProfile, media_of
from archon_mesh.llm.media.sent_files import SentFiles

__all__ = ["EVERYTHING", "NOTHING", "MediaProfile", "SentFiles", "load_file", "media_of"]
