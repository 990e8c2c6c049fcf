"""What a run came to: its answer, and who did what in which time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import answer_text
from archon_services.cli.render.memory_versions import version_of
from archon_services.cli.render.output import console, duration, harmless, is_terminal, print_table
from archon_services.cli.render.run_view import state_name
from archon_services.cli.render.task_tree import in_order


def print_answer(run: run_pb2.Run) -> None:
    """Markdown on a terminal, else as it is."""
    text = answer_text(run)
    if not text.strip():
        return
    if not is_terminal():
        print(text)
        return
    from rich.markdown import Markdown
    from rich.rule import Rule

    out = console()
    out.print(Rule("answer" if len(run.answers) == 1 else "answers", style="dim"))
    out.print(Markdown(_with_line_breaks(harmless(text))))
    out.print(Rule(style="dim"))


def print_summary(run: run_pb2.Run, versions: Mapping[str, int]) -> None:
    """A line per task, and one for the run; `versions` of the answers in the shared memory, by role."""
    rows = [
        (
            "  " * depth + task.role,
            state_name(task.state),
            duration(_span(task)) if task.HasField("start_time") and task.HasField("end_time") else "-",
            str(task.attempt),
            f"v{version}" if (version := version_of(run, task, versions)) else "-",
            tokens(task.usage.input_tokens, task.usage),
            tokens(task.usage.output_tokens, task.usage),
            task.instance_id or "-",
        )
        for depth, task in in_order(run.tasks)
    ]
    print()
    if rows:
        headers = ("role", "state", "time", "attempts", "memory", "tokens in", "out", "instance")
        print_table(headers, rows, right=(2, 3, 4, 5, 6))
        print()
    for task in run.tasks:
        if task.failure.message:
            print(f"{task.role}: {harmless(task.failure.message)}")
    failure = f": {harmless(run.failure.message)}" if run.failure.message else ""
    print(
        f"Run {run.run_id} {state_name(run.state)} after {duration(_span(run))}, "
        f"{tokens(run.usage.input_tokens, run.usage)} tokens in, {tokens(run.usage.output_tokens, run.usage)} out"
        f"{failure}."
    )


def tokens(count: int, usage: common_pb2.Usage) -> str:
    """With thousands apart, and `~` before an estimate."""
    return f"{'~' if usage.estimated else ''}{count:,}"


def _span(of: run_pb2.Run | run_pb2.Task) -> float:
    began = of.create_time if isinstance(of, run_pb2.Run) else of.start_time
    return max(0.0, (of.end_time.ToNanoseconds() - began.ToNanoseconds()) / 1e9)


def _with_line_breaks(text: str) -> str:
    """Markdown joins lines; roles write lists as lines. So each line outside of code keeps its break."""
    pieces = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("```") else re.sub(r"(?<=\S)\n(?=\S)", "  \n", piece) for piece in pieces)
