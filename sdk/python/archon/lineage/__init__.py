"""What the answers of a run rest on: which answers, messages and delegations each one used, back to the goal.

run         which task's answer used which others, folded from the run's events; what has to run again after a change
uses        the uses of one task by another
provenance  everything that an answer rests on, with calls of models and tools, memory, and what people said
source      the things that answers rest on
quotation   the sources whose text contains a quoted part of an answer, or its numbers
"""

from archon.lineage.provenance import Provenance, RunProvenance
from archon.lineage.quotation import QuotedSource
from archon.lineage.run import RunLineage
from archon.lineage.source import Link, Source, SourceKind
from archon.lineage.uses import TaskLineage, Use, UseKind

__all__ = [
    "Link",
    "Provenance",
    "QuotedSource",
    "RunLineage",
    "RunProvenance",
    "Source",
    "SourceKind",
    "TaskLineage",
    "Use",
    "UseKind",
]
