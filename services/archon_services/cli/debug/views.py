"""The commands that show the run at this point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from archon_mesh.llm.prices import find_window
from archon_services.cli.debug.session import Command, Session, Words, by_name, no_words, one_number, task_names
from archon_services.cli.errors import NOT_FOUND, CliError
from archon_services.cli.render.debug_text import (
    call_lines,
    frame_lines,
    help_lines,
    memory_lines,
    sent_lines,
    state_lines,
)
from archon_services.cli.render.prompt_report import record_lines
from archon_services.cli.render.prompt_sections import read_prompt
from archon_services.debugging import frames_of, memory_reads


def _state(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    return state_lines(session.stepper.view, session.stepper.event.time)


def _event(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    event = session.stepper.event
    yield from json.dumps({event.type: dict(event.data)}, indent=2, ensure_ascii=False).splitlines()


def _attempt(session: Session, words: Words) -> tuple[str, int]:
    """Returns the task that is meant, and its last attempt at this point. Raises CliError if there is none."""
    task_id = session.task_id(words)
    task = session.stepper.view.tasks.get(task_id)
    if task is None or task.attempt is None:
        label = task.label if task is not None else task_id
        raise CliError(f"{label} has not been dispatched up to this event", code=NOT_FOUND)
    return task_id, task.attempt.number


def _sent(session: Session, words: Words) -> Iterator[str]:
    sent = session.stepper.sent
    assigned = sent.task(*_attempt(session, words))
    if assigned is None:
        raise CliError(f"cannot tell: {sent.fault}")
    return sent_lines(assigned)


def _prompt(session: Session, words: Words) -> Iterator[str]:
    number = 0
    if words and words[0].isdecimal():
        number, words = one_number(words[:1], 0), words[1:]
    task_id, attempt = _attempt(session, words)
    records = [
        record
        for record in session.stepper.sent.records(session.stepper.seq, task_id, attempt)
        if record.kind == "model"
    ]
    if not records:
        raise CliError(f"no model call of attempt {attempt} is recorded up to this event", code=NOT_FOUND)
    if not 0 <= number <= len(records):
        raise CliError(f"there is no call {number}: up to this event there are 1 to {len(records)}", code=NOT_FOUND)
    record = records[number - 1]
    shown = number or len(records)
    yield f"Call {shown} of {len(records)} up to this event."
    lines = record_lines(record.proto, read_prompt(record.proto, find_window(record.target)), shown)
    yield from (text for text, _ in lines if "--window" not in text)  # an option of `archon prompts`


def _calls(session: Session, words: Words) -> Iterator[str]:
    task_id, attempt = _attempt(session, words)
    records = session.stepper.sent.records(session.stepper.seq, task_id, attempt)
    if not records:
        raise CliError(f"no call of attempt {attempt} is recorded up to this event", code=NOT_FOUND)
    return call_lines(records)


def _memory(session: Session, words: Words) -> Iterator[str]:
    task_id, attempt = _attempt(session, words)
    reads = memory_reads(session.stepper.run, session.stepper.seq, task_id, attempt)
    if not reads:
        return iter((f"Attempt {attempt} was sent no answers.",))
    return memory_lines(reads)


def _frames(session: Session, words: Words) -> Iterator[str]:
    frames = frames_of(session.stepper.run.events[: session.stepper.seq], session.task_id(words))
    if not frames:
        return iter(("There are no frames of this task up to this event.",))
    return frame_lines(frames, session.stepper.run.run_id)


def _help(session: Session, words: Words) -> Iterator[str]:
    named = by_name(session.commands)
    wanted = [named[word] for word in words if word in named] or session.commands
    return help_lines([(", ".join(each.names), each.arguments, each.text) for each in wanted])


def _quit(session: Session, words: Words) -> Iterator[str]:
    no_words(words)
    session.ended = True
    return iter(())


VIEWS: Final = (
    Command(("state", "s"), "", "the run and its tasks after this event", _state),
    Command(("event", "e"), "", "all fields of this event", _event),
    Command(("sent",), "[TASK]", "the task as the last attempt was sent it", _sent, complete=task_names),
    Command(("memory", "m"), "[TASK]", "the versions of answers that it read", _memory, complete=task_names),
    Command(("prompt", "p"), "[N] [TASK]", "the last prompt as it was sent, or the Nth", _prompt, complete=task_names),
    Command(("calls",), "[TASK]", "its calls of models and tools so far", _calls, complete=task_names),
    Command(("frames", "f"), "[TASK]", "the frames of the task so far", _frames, complete=task_names),
    Command(("help", "h"), "[COMMAND]", "the commands", _help),
    Command(("quit", "q"), "", "end the debugger", _quit),
)
