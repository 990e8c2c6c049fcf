"""Embedders: offline without downloads, or an embeddings API."""

from archon_mesh.memory.long_term.embedders.base import Embedder
from archon_mesh.memory.long_term.embedders.create import create_embedder
from archon_mesh.memory.long_term.embedders.offline import OfflineEmbedder

__all__ = ["Embedder", "OfflineEmbedder", "create_embedder"]
