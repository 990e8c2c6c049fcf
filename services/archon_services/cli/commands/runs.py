"""`archon runs`: lists runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon.wire import parts_text, to_seconds
from archon_services.cli.options import JsonOption, OrchestratorOption, WatchOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.run_filter import RunFilter, StateName
from archon_services.cli.run_ids import short_length
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.watching import repeat
from archon_services.reports.texts import age, one_line

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Run
    from archon.client import Client

AT_ONCE: Final = 16
"""Runs whose details are read at a time."""

GOAL_LENGTH: Final = 120
"""Characters of a goal that are shown."""

_HEADERS: Final = ("run", "state", "age", "strategy", "tokens", "stars", "roles", "goal")
_STARS: Final = 5
_RIGHT: Final = (2, 4, _STARS)
_FOLDED: Final = (6, 7)


def runs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="The number of runs at most.")] = 20,
    session: Annotated[str, typer.Option(metavar="ID", help="Only the runs of this session.")] = "",
    state: Annotated[
        list[StateName] | None,
        typer.Option(metavar="STATE", help=f"Only the runs in this state: {', '.join(StateName)}. May be repeated."),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only the runs submitted since then: 30m, 2h, 7d, or 2026-01-31T12:00.")
    ] = "",
    search: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Only the runs with this text in their goal, roles, id, session or metadata."
        ),
    ] = "",
    tree: Annotated[bool, typer.Option("--tree", help="Show each fork below the run that it was forked from.")] = False,
    watch: WatchOption = False,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """List runs, the newest first."""
    wanted = RunFilter.of(limit=limit, session=session, states=state or (), since=since, search=search)
    address = find_orchestrator(orchestrator)

    def show() -> None:
        listed = asyncio.run(_list(address, wanted))
        if as_json:
            from google.protobuf import json_format

            print_json([json_format.MessageToDict(run, preserving_proto_field_name=True) for run in listed])
        elif not listed:
            print(f"There are no runs{wanted.text}.")
        else:
            length = short_length([run.run_id for run in listed])
            shown = in_tree(listed) if tree else ((run, "") for run in listed)
            _print(shown, length, rated=any(run.ratings for run in listed))

    repeat(show, watch=watch)


def _print(runs: Iterable[tuple[Run, str]], length: int, *, rated: bool) -> None:
    """Prints a table of runs, with a column of stars if one of them is `rated`."""
    rows = [_row(run, length, guide) for run, guide in runs]
    if rated:
        print_table(_HEADERS, rows, right=_RIGHT, folded=_FOLDED)
        return
    without = [_without_stars(row) for row in rows]
    print_table(_without_stars(_HEADERS), without, right=_RIGHT[:-1], folded=[column - 1 for column in _FOLDED])


def _without_stars(cells: tuple[str, ...]) -> tuple[str, ...]:
    return (*cells[:_STARS], *cells[_STARS + 1 :])


async def _list(orchestrator: str, wanted: RunFilter) -> list[Run]:
    async with orchestrator_client(orchestrator) as client:
        listed = await wanted.list(client)
        slots = asyncio.Semaphore(AT_ONCE)
        detailed = await asyncio.gather(*(_details(client, run, slots) for run in listed))
    return [run for run in detailed if wanted.admits(run)][: wanted.limit]


async def _details(client: Client, run: Run, slots: asyncio.Semaphore) -> Run:
    """Returns the run with its goal, tasks and usage; as it was listed, if it cannot be read."""
    from archon.errors import ArchonError, DeadlineExceeded, Unavailable

    async with slots:
        try:
            return (await client.get(run.run_id)).proto
        except (Unavailable, DeadlineExceeded):
            raise
        except ArchonError:
            return run


def in_tree(runs: Sequence[Run]) -> Iterator[tuple[Run, str]]:
    """Yields the runs, each followed by its forks, the oldest first, with the lines of the tree in front of its id. A
    fork of a run that is not among them stands at the top, in the given order."""
    known = {run.run_id for run in runs}
    forks: dict[str, list[Run]] = {}
    for run in reversed(runs):
        forks.setdefault(run.parent_run_id if run.parent_run_id in known else "", []).append(run)
    waiting = [(run, "", "") for run in forks.get("", [])]  # the newest is taken first
    while waiting:
        run, guide, below = waiting.pop()
        yield run, guide
        children = forks.get(run.run_id, [])
        last = len(children) - 1
        lines = [("└─ ", "   ") if number == last else ("├─ ", "│  ") for number in range(len(children))]
        waiting += [
            (child, below + line, below + rest)
            for child, (line, rest) in reversed(list(zip(children, lines, strict=True)))
        ]


def _row(run: Run, id_length: int, guide: str = "") -> tuple[str, ...]:
    from archon.run_view.convert import strategy_name
    from archon_services.reports.state_names import run_state_name
    from archon_services.reports.texts import token_count

    roles = dict.fromkeys(task.role for task in run.tasks)
    usage = run.usage
    return (
        guide + run.run_id[:id_length],
        run_state_name(run),
        age(time.time() - to_seconds(run.create_time)),
        strategy_name(run.strategy) or "-",
        token_count(usage.input_tokens + usage.output_tokens, usage),
        f"{sum(rating.stars for rating in run.ratings) / len(run.ratings):.1f}" if run.ratings else "-",
        ", ".join(roles) or "-",
        one_line(parts_text(run.goal), GOAL_LENGTH) or "-",
    )
