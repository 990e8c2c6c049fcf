"""The commands about breakpoints of a run that goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from archon_services.cli.debug.live import LiveRun, holds_of
from archon_services.cli.debug.session import Command, Session, Words, no_words
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.render.debug_text import breakpoint_lines, held_lines

if TYPE_CHECKING:
    from archon.types import RunQuestion


def _breaks(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    live = session.live_run()
    yield from breakpoint_lines(live.breakpoints())
    yield from held_lines(live.held(), session.stepper.run.run_id)


def _break(session: Session, words: Words) -> Iterator[str]:
    if not words:
        raise CliError(
            "break before which point?", hint="tool:NAME, model, model:ROLE, task:ROLE, step:NAME", code=USAGE
        )
    live = session.live_run()
    known = [each.text for each in live.breakpoints()]
    yield from breakpoint_lines(live.set_breakpoints([*known, *(word for word in words if word not in known)]))
    session.refresh()


def _delete(session: Session, words: Words) -> Iterator[str]:
    live = session.live_run()
    known = [each.text for each in live.breakpoints()]
    if unknown := [word for word in words if word not in known]:
        raise CliError(f"the run has no breakpoint {unknown[0]}", code=NOT_FOUND)
    left = [text for text in known if words and text not in words]
    yield from breakpoint_lines(live.set_breakpoints(left))
    session.refresh()


def _continue(session: Session, words: Words) -> Iterator[str]:
    live = session.live_run()
    held = live.held()
    if words:
        held = [question for question in held if _named(question, session) in words or question.role in words]
        if not held:
            raise CliError(f"nothing is held at {' '.join(words)}", code=NOT_FOUND)
    return _go_on(session, live, held, "approve")


def _wait(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    live = session.live_run()
    run = live.run()
    if not run.end_time and not holds_of(run):
        live.wait(run.last_seq)
    return _arrived(session, live)


def _run(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    live = session.live_run()
    live.set_breakpoints([])
    return _go_on(session, live, live.held(), "approve")


def _edit(session: Session, words: Words) -> Iterator[str]:
    live, question, text = _one(session, words, "with what?")
    if question.breakpoint.startswith("model"):
        raise CliError(
            "a prompt cannot be edited", hint="`answer TEXT` puts a reply in the place of the call.", code=USAGE
        )
    if not question.breakpoint.startswith("tool"):
        text = json.dumps({"input": text}, ensure_ascii=False)
    return _go_on(session, live, [question], "modify", text)


def _answer(session: Session, words: Words) -> Iterator[str]:
    live, question, text = _one(session, words, "with which answer?")
    if question.breakpoint.startswith("tool"):
        raise CliError("a tool has arguments, and no answer", hint="`edit JSON` replaces the arguments.", code=USAGE)
    return _go_on(session, live, [question], "modify", json.dumps({"answer": text}, ensure_ascii=False))


def _reject(session: Session, words: Words) -> Iterator[str]:
    live = session.live_run()
    return _go_on(session, live, [_only(live)], "reject", " ".join(words))


def _one(session: Session, words: Words, missing: str) -> tuple[LiveRun, RunQuestion, str]:
    """Returns the only hold of the run, and the text of its replacement."""
    live = session.live_run()
    if not words:
        raise CliError(missing, code=USAGE)
    return live, _only(live), " ".join(words)


def _only(live: LiveRun) -> RunQuestion:
    held = live.held()
    if not held:
        raise CliError("the run is not held at a breakpoint", code=NOT_FOUND)
    if len(held) > 1:
        raise CliError(
            f"the run is held at {len(held)} points",
            hint="`archon respond --question ID` answers one of them.",
            code=USAGE,
        )
    return held[0]


def _go_on(
    session: Session, live: LiveRun, held: Sequence[RunQuestion], decision: str, text: str = ""
) -> Iterator[str]:
    """Answers the questions, waits for the next one or the end of the run, and moves there."""
    before = live.run()
    if before.end_time:
        yield "The run has ended."
        return
    live.answer([question.input_id for question in held], decision, text)
    if len(held) == len(holds_of(before)):  # else it stays at the others
        live.wait(before.last_seq)
    yield from _arrived(session, live)


def _arrived(session: Session, live: LiveRun) -> Iterator[str]:
    """Moves to the last event, and yields the lines of the holds there."""
    session.refresh()
    session.stepper.go(session.stepper.run.last_seq)
    yield from session.moved()
    yield from held_lines(live.held(), session.stepper.run.run_id)


def _named(question: RunQuestion, session: Session) -> str:
    return question.input_id.removeprefix(f"{session.stepper.run.run_id}.")


def _refresh(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    session.live_run()
    session.refresh()
    session.stepper.go(session.stepper.run.last_seq)
    return session.moved()


BREAKS: Final = (
    Command(("breaks",), "", "the breakpoints, who does not hold there, and the holds", _breaks),
    Command(("break",), "POINT...", "hold before tool:NAME, model, task:ROLE, step:NAME", _break),
    Command(("delete",), "[POINT...]", "remove these breakpoints, or all", _delete),
    Command(("continue", "c"), "[TASK]", "let the run go on to the next breakpoint, or its end", _continue, moves=True),
    Command(("wait",), "", "wait until the run is held, or has ended", _wait),
    Command(("run",), "", "remove all breakpoints, and let the run go on to its end", _run),
    Command(("edit",), "TEXT | JSON", "go on with another input of the task, or arguments", _edit, is_raw=True),
    Command(("answer",), "TEXT", "give the answer in place of the task, or of the model", _answer, is_raw=True),
    Command(("reject",), "[REASON]", "fail the run here", _reject, is_raw=True),
    Command(("refresh",), "", "read what has happened since", _refresh),
)
