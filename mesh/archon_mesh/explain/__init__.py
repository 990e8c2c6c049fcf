"""Explanations of runs, from their events alone: for users, developers and auditors.

    explanation = explain(await fetch_run(client, run_id))
    print(explanation.paragraph())

A model may word an explanation (`word`); the facts, with the events that prove them, stay.
"""

from archon_mesh.explain.explanation import Audience, Confidence, Explanation, Fact, RecordLine
from archon_mesh.explain.facts import explain
from archon_mesh.explain.wording import Wording, word

__all__ = ["Audience", "Confidence", "Explanation", "Fact", "RecordLine", "Wording", "explain", "word"]
