"""`archon explain`: explains a run to a user, a developer or an auditor."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.render.output import print_json
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import details_removed, find_run_id

if TYPE_CHECKING:
    from archon_mesh.explain import Audience, Explanation, Wording
    from archon_mesh.recorded import RecordedRun


class Reader(StrEnum):
    """Whom an explanation is for: an `Audience`, which a start of the command line does not import."""

    USER = "user"
    DEVELOPER = "developer"
    AUDITOR = "auditor"


def explain(
    run: RunArgument,
    reader: Annotated[
        Reader,
        typer.Option(
            "--for",
            metavar="READER",
            help="user: a paragraph. developer: the conclusion, its evidence by event, and the confidence. auditor: "
            "the complete timed record.",
        ),
    ] = Reader.USER,
    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="A model that words it, such as openai/NAME; the facts are printed as well."
        ),
    ] = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Explain a run, from its events alone: its goal, its work, its end, and how sure the answer is.

    The same run gives the same text; with --model, a model words it.
    """
    from archon_mesh.explain import Audience
    from archon_mesh.explain import explain as explained
    from archon_services.cli.render.explanation import explanation_lines

    audience = Audience(reader)
    recorded = asyncio.run(_fetch(find_orchestrator(orchestrator), run))
    explanation = explained(recorded)
    if reader is Reader.AUDITOR and recorded.expired:
        raise details_removed(recorded.run.run_id)
    wording = asyncio.run(_word(explanation, audience, model)) if model else None
    if as_json:
        worded = (
            {"text": wording.text, "worded_by": wording.model, "unproven": list(wording.unproven)} if wording else {}
        )
        print_json(explanation.document(audience) | worded)
        return
    print("\n".join(explanation_lines(explanation, audience, wording)))


async def _fetch(orchestrator: str, name: str) -> RecordedRun:
    from archon_mesh.recorded import fetch_run

    async with orchestrator_client(orchestrator) as client:
        return await fetch_run(client, await find_run_id(client, name))


async def _word(explanation: Explanation, audience: Audience, name: str) -> Wording:
    from archon_mesh.explain import word
    from archon_mesh.llm import create_model

    model = create_model(name)
    try:
        return await word(explanation, audience, model)
    finally:
        await model.close()
