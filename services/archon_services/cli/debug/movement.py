"""The commands that move in a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from archon_mesh.explain.event_text import KINDS
from archon_services.cli.debug.session import Command, Session, Words, one_number, task_names
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.debugging import Match, by_kind, by_role, by_task, by_text, is_failure

_WHERE: Final = ("task", "role", "search", "failure")


def _next(session: Session, words: Words) -> Iterator[str]:
    return _move(session, words, backwards=False)


def _back(session: Session, words: Words) -> Iterator[str]:
    return _move(session, words, backwards=True)


def _move(session: Session, words: Words, *, backwards: bool) -> Iterator[str]:
    stepper = session.stepper
    if not words or words[0].isdecimal():
        count = one_number(words, 1)
        if not stepper.go(stepper.seq + (-count if backwards else count)):
            yield "The first event." if backwards else "The last event."
    elif not stepper.next(_match(session, words), backwards=backwards):
        direction = "before" if backwards else "after"
        raise CliError(f"no such event {direction} this one", code=NOT_FOUND)
    yield from session.moved()


def _match(session: Session, words: Words) -> Match:
    what, *rest = words
    match what:
        case "task":
            return by_task(session.task_id(rest))
        case "role":
            return _role(session, " ".join(rest))
        case "search":
            return _text(session, " ".join(rest))
        case "failure" if not rest:
            return is_failure
        case _ if what in KINDS and not rest:
            return by_kind(what)
    raise CliError(
        f"cannot go to {' '.join(words)!r}",
        hint="A number, `task [NAME]`, `role ROLE`, `search TEXT`, `failure`, or a kind of event such as `dispatched`.",
        code=USAGE,
    )


def _role(session: Session, role: str) -> Match:
    tasks = [task for task in session.stepper.named(role) if task.role == role] if role else []
    if not tasks:
        raise CliError(f"the run has no role {role!r}", code=NOT_FOUND)
    return by_role(role, frozenset(task.task_id for task in tasks))


def _text(session: Session, text: str) -> Match:
    session.searched = text or session.searched
    if not session.searched:
        raise CliError("search for which text?", code=USAGE)
    return by_text(session.searched)


def _search(session: Session, words: Words) -> Iterator[str]:
    if not session.stepper.next(_text(session, " ".join(words))):
        raise CliError(f"no event after this one has {session.searched!r}", code=NOT_FOUND)
    yield from session.moved()


def _failure(session: Session, words: Words) -> Iterator[str]:
    if words:
        raise CliError("`failure` goes to the first one; `next failure` to the next", code=USAGE)
    if not session.stepper.first(is_failure):
        yield "Nothing failed in this run."
        return
    yield from session.moved()


def _go(session: Session, words: Words) -> Iterator[str]:
    stepper = session.stepper
    ends = {"first": 1, "last": stepper.run.last_seq}
    if len(words) == 1 and words[0] in ends:
        stepper.go(ends[words[0]])
    elif not words:
        raise CliError("go to which event?", hint="A number, `first` or `last`.", code=USAGE)
    else:
        seq = one_number(words, 0)
        if not 1 <= seq <= stepper.run.last_seq:
            raise CliError(f"there is no event {seq}: the run has 1 to {stepper.run.last_seq}", code=NOT_FOUND)
        stepper.go(seq)
    yield from session.moved()


def _where(session: Session, words: Words) -> Iterable[str]:
    return session.moved()


def _places(session: Session) -> list[str]:
    return [*_WHERE, *sorted(KINDS), *task_names(session)]


MOVEMENT: Final = (
    Command(
        ("next", "n"),
        "[N | task [NAME] | role ROLE | search TEXT | failure | KIND]",
        "the next event, or the next one that is named",
        _next,
        moves=True,
        complete=_places,
    ),
    Command(("back", "b"), "[the same]", "the event before", _back, moves=True, complete=_places),
    Command(("go", "g"), "SEQ | first | last", "an event by its number", _go, complete=lambda _: ("first", "last")),
    Command(("failure",), "", "the first failure", _failure),
    Command(("search",), "[TEXT]", "the next event with a text; also /TEXT, and ?TEXT before", _search, moves=True),
    Command(("where", "w"), "", "this event again", _where),
)
