"""The end of a run: its answer, and a table of its tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.plain_text import duration
from archon_services.cli.render.answer import has_json, shown_answer
from archon_services.cli.render.incidents import incident_text
from archon_services.cli.render.output import console, is_terminal, print_table
from archon_services.cli.render.rerun import rerun_hint
from archon_services.cli.render.task_tree import in_order
from archon_services.cli.wrapping import wrapped
from archon_services.reports.state_names import state_name, task_label, task_state_name
from archon_services.reports.texts import cached_text, cost_text, strip_controls, token_count

WIDE: Final = 100
"""Characters of a terminal that has room for all columns of the summary."""

_HEADERS: Final = ("role", "state", "time", "attempts", "memory", "tokens in", "out", "cost", "instance")
_NUMBERS: Final = frozenset({"time", "attempts", "memory", "tokens in", "out", "cost"})


def print_answer(run: run_pb2.Run) -> None:
    """Prints the answers: rendered Markdown on a terminal, else plain text. Prints nothing if there are none."""
    text = shown_answer(run)
    if not text.strip():
        return
    if not is_terminal():
        print(text)
        return
    from rich.markdown import Markdown
    from rich.rule import Rule

    out = console()
    out.print(Rule("answer" if len(run.answers) == 1 else "answers", style="dim"))
    is_json = has_json(run) and len(run.answers) == 1
    out.print(Markdown(f"```json\n{strip_controls(text)}\n```" if is_json else _with_line_breaks(strip_controls(text))))
    out.print(Rule(style="dim"))


def print_summary(run: run_pb2.Run, versions: Mapping[str, int], flag: str = "") -> None:
    """Prints a row per task, the failures, a line for the run, and how to continue it if it ended without success.

    `versions` is the result of `memory_versions`; `flag` is the option that suggested commands need to reach the
    orchestrator."""
    rows = [
        (
            "  " * depth + task_label(task),
            task_state_name(task),
            duration(_span(task)) if task.HasField("start_time") and task.HasField("end_time") else "-",
            str(task.attempt),
            f"v{version}" if (version := version_of(run, task, versions)) else "-",
            token_count(task.usage.input_tokens, task.usage),
            token_count(task.usage.output_tokens, task.usage),
            cost_text(task.usage.cost_micro_usd) or "-",
            task.instance_id or "-",
        )
        for depth, task in in_order(run.tasks)
    ]
    print()
    if rows:
        _print_tasks(rows, with_cost=bool(run.usage.cost_micro_usd))
        print()
    for task in run.tasks:
        if task.failure.message:
            print(wrapped(f"{task_label(task)}: {strip_controls(task.failure.message)}"))
            if incident := incident_text(task.failure):
                print(wrapped(f"  {strip_controls(incident)}"))
    failure = f": {strip_controls(run.failure.message)}" if run.failure.message else ""
    usage = run.usage
    cached = cached_text(usage.cached_input_tokens, usage.input_tokens)
    line = (
        f"Run {run.run_id} {state_name(run.state)} after {duration(_span(run))}, "
        f"{token_count(usage.input_tokens, usage)} tokens in{cached}, {token_count(usage.output_tokens, usage)} out"
        f"{', ' if usage.cost_micro_usd else ''}{cost_text(usage.cost_micro_usd)}{failure}."
    )
    print(wrapped(line))
    if hint := rerun_hint(run, flag):
        print(wrapped(f"hint: {hint}"))


def _print_tasks(rows: Sequence[Sequence[str]], *, with_cost: bool) -> None:
    """Prints the rows; on a narrow terminal without the columns that leave no room for the cost."""
    hidden = set() if with_cost else {"cost"}
    if is_terminal() and console().width < WIDE:
        hidden |= {"memory", "attempts"} if with_cost else {"memory"}
        rows = [(*row[:-1], row[-1].removeprefix(f"{row[0].split()[0]}-")) for row in rows]
    kept = [column for column, header in enumerate(_HEADERS) if header not in hidden]
    right = [number for number, column in enumerate(kept) if _HEADERS[column] in _NUMBERS]
    print_table([_HEADERS[n] for n in kept], [[row[n] for n in kept] for row in rows], right=right)


def version_of(run: run_pb2.Run, task: run_pb2.Task, versions: Mapping[str, int]) -> int:
    """Returns the memory version of a task's answer; 0 if unknown.

    `versions` are by role, so they say nothing about the tasks of a role that has completed several.
    """
    completed = [
        other for other in run.tasks if other.role == task.role and other.state == common_pb2.TASK_STATE_COMPLETED
    ]
    return task.memory_version or (versions.get(task.role, 0) if completed == [task] else 0)


def _span(timed: run_pb2.Run | run_pb2.Task) -> float:
    began = timed.create_time if isinstance(timed, run_pb2.Run) else timed.start_time
    return max(0.0, (timed.end_time.ToNanoseconds() - began.ToNanoseconds()) / 1e9)


def _with_line_breaks(text: str) -> str:
    """Keeps the line breaks outside of code: Markdown would join the lines in which roles write lists."""
    pieces = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("```") else re.sub(r"(?<=\S)\n(?=\S)", "  \n", piece) for piece in pieces)
