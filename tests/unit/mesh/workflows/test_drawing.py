"""Workflows as text and as drawings."""

from __future__ import annotations

from pathlib import Path

from archon_mesh.workflows import WorkflowFolder
from archon_mesh.workflows.drawing import to_text, workflow_to_dot, workflow_to_mermaid

EXAMPLES = WorkflowFolder(Path(__file__).parents[4] / "examples" / "workflows")


def test_a_text_shows_parameters_blocks_and_error_branches() -> None:
    trip, stay = to_text(EXAMPLES.load("trip")), to_text(EXAMPLES.load("stay"))
    assert "-p style=string (default 'short', one of short, long)" in trip
    assert "2. for each flight of {{ flights }} -> texts\n" in trip
    assert "[on error: retry 1, continue]" in trip
    assert "else:\n" in trip
    assert "4. workflow stay -> room\n" in trip
    assert "on error:\n" in stay


def test_drawings_have_both_branches_and_join_them() -> None:
    mermaid = workflow_to_mermaid(EXAMPLES.load("trip"))
    lines = [line.strip() for line in mermaid.splitlines() if "[" in line]
    ids = {line.split("<br/>")[0].split('["')[1]: line.split("[")[0] for line in lines}
    for branch in ("step-3/then/choice", "step-3/else/choice"):
        assert f"{ids['step-3']} --> {ids[branch]}" in mermaid
        assert f"{ids[branch]} --> {ids['room']}" in mermaid
    assert workflow_to_dot(EXAMPLES.load("stay")).startswith("digraph plan {")
