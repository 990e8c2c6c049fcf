"""The sources of a run's answers: which answers, messages and delegations each one used, back to the goal.

run         which task's answer used which others, folded from the run's events; the tasks to run again after a change
uses        the uses of one task by another
provenance  all sources of an answer, with calls of models and tools, memory, and people's answers
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
