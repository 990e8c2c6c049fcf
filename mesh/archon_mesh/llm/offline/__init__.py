"""The offline model: answers by rules of text, without network, weights or key."""

from archon_mesh.llm.offline.model import OfflineModel

__all__ = ["OfflineModel"]
