"""`archon dataset`: data sets of evals, made of recorded runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import details_removed, find_run_id
from archon_services.cli.wrapping import wrapped

if TYPE_CHECKING:
    from archon_mesh.recorded import RecordedRun

dataset = typer.Typer(no_args_is_help=True)

_OF_RUN: Final = {"answer": "exact", "schema": "schema", "tools": "tools", "roles": "roles"}
"""Words of --expect, and their scorers, which take everything from the run."""

_VALUES: Final = {
    "text": ("contains", "texts"),
    "regex": ("regex", "pattern"),
    "judge": ("judge", "criteria"),
    "cost": ("cost", "max_usd"),
    "tokens": ("tokens", "most"),
    "seconds": ("seconds", "most"),
    "rating": ("rating", "least"),
    "python": ("python", "function"),
}
"""Words before a colon, the scorer of each, and its key for the text after the colon."""


@dataset.callback()
def _group() -> None:
    """Make data sets for `archon eval` of recorded runs."""


@dataset.command()
def add(
    run: RunArgument,
    file: Annotated[
        Path, typer.Option("--file", metavar="FILE", help="The data set, JSON Lines; it is created if it is missing.")
    ] = Path("cases.jsonl"),
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="answer (the recorded one, by default), schema, tools or roles: as in the run. text:TEXT, "
            "regex:PATTERN, judge:CRITERIA, cost:USD, tokens:N, seconds:N, rating:STARS, python:MODULE:FUNCTION. A "
            "JSON object with a scorer. Any other text: the answer contains it. Repeatable.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--id", metavar="ID", help="The id of the case; by default the first 12 characters of RUN.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace the case with this id.")] = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Add a run as a case: its goal, its roles, its strategy, and its answer.

    \b
    archon dataset add last --expect roles --expect "1,200 orders"
    archon dataset add last --expect schema --expect seconds:30
    """
    expected = [expectation(text) for text in expect or ()]
    calls = any(each["scorer"] == "tools" for each in expected)
    recorded = asyncio.run(_fetch(find_orchestrator(orchestrator), run, calls=calls))
    from archon.errors import AlreadyExists
    from archon_mesh.evals import case_from_run
    from archon_mesh.evals.files import add_case

    case = case_from_run(recorded, expected, case_id=name)
    try:
        count = add_case(file, case, replace=replace)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from None
    except AlreadyExists as error:
        raise CliError(error.message, hint="--replace replaces it, and --id adds the run as another case.") from None
    scorers = ", ".join(each.label for each in case.expectations)
    cases = "1 case" if count == 1 else f"{count:,} cases"
    added = f"Added run {recorded.run.run_id} as {case.id} to {file}, which has {cases}. It expects: {scorers}."
    print(wrapped(added))


def expectation(text: str) -> dict[str, Any]:
    """Returns the expectation that --expect means, as a JSON object. Raises CliError if it means nothing."""
    if text in _OF_RUN:
        return {"scorer": _OF_RUN[text]}
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except ValueError as error:
            raise CliError(f"--expect {text!r} is not JSON: {error}", code=USAGE) from None
        if "scorer" not in document:
            raise CliError(f"--expect {text!r} has no scorer", code=USAGE)
        return dict(document)
    word, colon, value = text.partition(":")
    if not colon or word not in _VALUES:
        if not text.strip():
            raise CliError("--expect is empty", code=USAGE)
        return {"scorer": "contains", "texts": [text]}
    scorer, key = _VALUES[word]
    if word in ("cost", "tokens", "seconds", "rating"):
        return {"scorer": scorer, key: _number(text, value, whole=word == "tokens")}
    return {"scorer": scorer, key: [value] if word == "text" else value}


def _number(text: str, value: str, *, whole: bool) -> float:
    try:
        return int(value) if whole else float(value)
    except ValueError:
        raise CliError(f"--expect {text!r} has no number after the colon", code=USAGE) from None


async def _fetch(orchestrator: str, name: str, *, calls: bool) -> RecordedRun:
    from archon_mesh.recorded import fetch_run

    async with orchestrator_client(orchestrator) as client:
        recorded = await fetch_run(client, await find_run_id(client, name), records=calls)
    if calls and recorded.expired:  # else the case would expect that no tool is called
        raise details_removed(recorded.run.run_id)
    return recorded
