"""Decisions: the rules by which a step chooses among the results that it depends on. Pure, and without a model."""

from __future__ import annotations

from archon_mesh.engine.decisions.award import BID_SCHEMA
from archon_mesh.engine.decisions.candidate import UNDECIDED_REQUEST, Bid, Candidate, Resolution, Vote
from archon_mesh.engine.decisions.decide import DECISIONS, RECORD, decision_fault, resolve

__all__ = [
    "BID_SCHEMA",
    "DECISIONS",
    "RECORD",
    "UNDECIDED_REQUEST",
    "Bid",
    "Candidate",
    "Resolution",
    "Vote",
    "decision_fault",
    "resolve",
]
