"""`archon playground`: changes a recorded prompt, sends it again, and compares the answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import FAILED, CliError
from archon_services.cli.interrupts import Signals
from archon_services.cli.options import JsonOption, OrchestratorOption, RunOrFileArgument
from archon_services.cli.prompt_edits import edited_by_hand, with_replacements, with_texts
from archon_services.cli.render.output import console, print_json
from archon_services.cli.target.recorded_calls import read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from archon_mesh.playground import Played, RecordedCall, Trial, Variant


def playground(
    run: RunOrFileArgument,
    task: Annotated[
        str,
        typer.Argument(metavar="TASK", help="A role, a step, or the beginning of the id of a task with model calls."),
    ] = "",
    call: Annotated[
        int | None,
        typer.Argument(metavar="CALL", help="The number of the model call in its task, from 1; by default the last."),
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", "-e", help="Change the prompt in the editor of VISUAL or EDITOR.")
    ] = False,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART=TEXT",
            help="Another text of a part: `system`, `input`, or the number of a message. @FILE reads it. Repeatable.",
        ),
    ] = None,
    replacements: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="OLD=NEW", help="Replace a text wherever a message has it. Repeatable."),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="Another model: `openai/NAME`, `anthropic/NAME`, `offline`, ...")
    ] = "",
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Another temperature, from 0 to 2.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, metavar="N", help="Another limit of the reply.")] = None,
    variant: Annotated[
        Path | None, typer.Option("--variant", metavar="FILE", help="Begin with the prompt of this file of --save.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Send it N times.")] = 1,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="USD", help="Budget of all calls, in US dollars.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit of a call; 300 by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes and an estimate; send nothing.")] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write the changed prompt, a variant for `archon eval --variant`."),
    ] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Change a recorded prompt, send it again, and compare the answers with the recorded one.

    \b
    archon playground last designer 1 --set system=@prompt.txt --repeat 3
    archon playground run.archon designer --model openai/gpt-5-mini --max-cost 0.05
    archon playground last designer --edit --save variant.yaml

    The run is not changed, and tools that the model calls are not executed. Addresses and keys of models come from the
    environment. Exit code 1 if no call was answered.
    """
    from archon_mesh.playground import Variant, read_variant
    from archon_services.cli.render.playground import print_played

    found = asyncio.run(read_records(run, orchestrator)).call(task, call)
    chosen = Variant.of(found)
    if variant is not None:
        chosen = _beside(read_variant(variant), chosen)
    chosen = with_replacements(with_texts(chosen, texts or ()), replacements or ())
    if model:
        chosen = chosen.with_model(model)
    if temperature is not None:
        chosen = chosen.with_temperature(temperature)
    if max_tokens is not None:
        chosen = chosen.with_max_tokens(max_tokens)
    if edit:
        chosen = _beside(edited_by_hand(chosen), chosen)
    if save is not None:
        _save(chosen, save)
    played = _estimate(chosen, found) if dry_run else asyncio.run(_play(chosen, found, repeat, max_cost, timeout))
    if as_json:
        print_json(played.document())
    else:
        print_played(played, dry_run=dry_run)
    if not dry_run and not played.answered:
        raise typer.Exit(FAILED)


def _beside(variant: Variant, recorded: Variant) -> Variant:
    """Returns a variant that is compared with the recorded prompt."""
    from dataclasses import replace

    return replace(variant, origin=recorded.origin, original=recorded.original)


def _save(variant: Variant, file: Path) -> None:
    from archon_mesh.playground import write_variant

    try:
        write_variant(variant, file)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from None
    print(f"Wrote {file}.", file=sys.stderr)


async def _play(
    variant: Variant, recorded: RecordedCall, repeat: int, max_cost: float | None, timeout: float | None
) -> Played:
    from archon_mesh.playground import play

    with Signals() as signals, _progress(repeat) as count:
        return await signals.guard(
            play(
                variant,
                recorded=recorded,
                repeat=repeat,
                max_cost_usd=max_cost,
                timeout=timeout,
                on_trial=count,
            )
        )


def _estimate(variant: Variant, recorded: RecordedCall) -> Played:
    from archon_mesh.playground import Played

    return Played(variant, (), recorded)


@contextmanager
def _progress(trials: int) -> Iterator[Callable[[Trial], None]]:
    """Shows on a terminal how many calls have ended; yields the function that counts them."""
    if not sys.stderr.isatty():
        yield lambda trial: None
        return
    ended = 0
    with console(stderr=True).status(f"0 of {trials} answers") as status:

        def count(trial: Trial) -> None:
            nonlocal ended
            ended += 1
            status.update(f"{ended} of {trials} answers")

        yield count
