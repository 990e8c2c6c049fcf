"""Finds the entries that answer a query: vectors and words fused by rank, weighted, without near-duplicates."""

from archon_mesh.memory.long_term.retrieval.aspects import aspects
from archon_mesh.memory.long_term.retrieval.search import Retrieval, Retriever
from archon_mesh.memory.long_term.retrieval.weights import DEFAULT_WEIGHTS, Weights

__all__ = ["DEFAULT_WEIGHTS", "Retrieval", "Retriever", "Weights", "aspects"]
