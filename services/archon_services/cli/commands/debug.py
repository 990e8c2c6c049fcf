"""`archon debug`: steps through a recorded run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.breakpoint_option import read_breakpoints
from archon_services.cli.errors import FAILED, NOT_FOUND, USAGE, CliError, report_error
from archon_services.cli.options import BreakOption, JsonOption, KeyOption, OrchestratorOption
from archon_services.cli.render.output import print_json
from archon_services.cli.target.audit_keys import public_keys
from archon_services.cli.target.mesh import call_orchestrator, find_orchestrator
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon_services.cli.debug.live import LiveRun
    from archon_services.cli.debug.session import Session
    from archon_services.debugging import DebuggedRun, Stepper


def debug(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run id, a unique prefix of a recent one, `last` for the newest run, or a file of `archon export`.",
        ),
    ],
    commands: Annotated[
        list[str] | None,
        typer.Option(
            "--command", "-c", metavar="COMMAND", help="Execute this command of the debugger, and end. Repeatable."
        ),
    ] = None,
    at: Annotated[
        int, typer.Option("--at", min=0, metavar="SEQ", help="Begin at this event; with --json, the event to print.")
    ] = 0,
    break_before: BreakOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Step through a run, forwards and backwards, with its prompts, memory and frames; hold it at breakpoints.

    \b
    archon debug last
    archon debug run.archon -c failure -c prompt
    archon debug run.archon --at 7 --json
    archon debug last --break-before tool:pay

    Reads commands from the terminal, or from standard input line by line; `help` lists them.
    """
    from archon_services.debugging import Stepper, state_document

    if as_json and commands:
        raise CliError("--json prints the state at --at SEQ: it goes with no --command", code=USAGE)
    debugged, live = _read(run, key, orchestrator, read_breakpoints(break_before))
    if at > debugged.last_seq:
        raise CliError(f"there is no event {at}: the run has 1 to {debugged.last_seq}", code=NOT_FOUND)
    stepper = Stepper(debugged)
    goes_on = live is not None and debugged.event(debugged.last_seq).type != "run_state"
    stepper.go(at or (debugged.last_seq if as_json or goes_on else 1))
    if as_json:
        print_json(state_document(stepper))
        return
    session = _session(stepper, live)
    if commands:
        _script(session, commands)
        return
    _converse(session)


def _read(
    name: str, key: Path | None, orchestrator: str, breakpoints: Sequence[str]
) -> tuple[DebuggedRun, LiveRun | None]:
    """Reads the run: from a file if there is one with this name, else from the mesh, where it gets the breakpoints."""
    from archon.errors import InvalidArgument
    from archon_services.debugging import open_debugged

    path = Path(name)
    if not (path.is_file() or path.suffix or "/" in name):
        return _from_mesh(find_orchestrator(orchestrator), name, breakpoints)
    if breakpoints:
        raise CliError("a run that was read from a file cannot be held: --break-before needs a run", code=USAGE)
    try:
        return open_debugged(path, public_keys(key)), None
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else FAILED
        raise CliError(f"cannot read {path}: {error.strerror}", code=code) from None
    except InvalidArgument as error:
        hint = "Seals of another mesh need its public keys: --key FILE." if "public keys" in error.message else ""
        raise CliError(error.message, hint=hint) from None


def _from_mesh(orchestrator: str, name: str, breakpoints: Sequence[str]) -> tuple[DebuggedRun, LiveRun]:
    from archon_services.cli.debug.live import LiveRun

    live = LiveRun(orchestrator, call_orchestrator(orchestrator, lambda client: find_run_id(client, name)))
    if breakpoints:
        known = [each.text for each in live.breakpoints()]
        live.set_breakpoints([*known, *(text for text in breakpoints if text not in known)])
    return live.fetch(), live


def _session(stepper: Stepper, live: LiveRun | None) -> Session:
    from archon_services.cli.debug.breaks import BREAKS
    from archon_services.cli.debug.movement import MOVEMENT
    from archon_services.cli.debug.session import Session
    from archon_services.cli.debug.views import VIEWS

    return Session(stepper, (*MOVEMENT, *BREAKS, *VIEWS), live=live)


def _script(session: Session, lines: Iterable[str]) -> None:
    """Executes lines, each after a line that repeats it. The first one that fails ends the command."""
    for line in lines:
        print(f"> {line}")
        for text in session.execute(line):
            print(text)
        if session.ended:
            return


def _converse(session: Session) -> None:
    """Executes lines from the terminal, where a mistake is said and the next line read, or from standard input."""
    from archon_services.cli.contexts import find_home
    from archon_services.cli.debug.lines import typed_lines

    run = session.stepper.run
    print(f"run {run.run_id}: {run.last_seq} events of {run.source}, {len(run.records)} recorded calls")
    for text in session.moved():
        print(text)
    is_person = sys.stdin.isatty()
    history = find_home().root / "debug-history" if is_person else None
    lines = typed_lines(lambda: session.prompt, session.completions, history)
    if not is_person:
        _script(session, lines)
        return
    for line in lines:
        try:
            for text in session.execute(line):
                print(text)
        except CliError as error:
            report_error(error)
        if session.ended:
            return
