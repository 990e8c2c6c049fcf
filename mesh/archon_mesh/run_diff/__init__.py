"""The difference of two runs, from their events and records.

diff = diff_runs(await fetch_run(client, before), await fetch_run(client, after))
assert diff.same, diff.answers
"""

from archon_mesh.run_diff.diff import RunDiff, TaskDiff, TaskSide, TextChange, diff_runs
from archon_mesh.run_diff.pieces import Piece, PieceKind, word_diff

__all__ = ["Piece", "PieceKind", "RunDiff", "TaskDiff", "TaskSide", "TextChange", "diff_runs", "word_diff"]
