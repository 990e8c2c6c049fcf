"""One debugger: a position in a run, the commands that are typed, and the lines that they print."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from archon_services.cli.debug.live import LiveRun
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.render.debug_text import event_lines
from archon_services.debugging import Stepper

Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the debugger: its names, the first one for people, its arguments for people, a line of help,
    and the function that yields the lines to print. `moves`: an empty line repeats it. Raises CliError if the words
    after the name are wrong."""

    names: tuple[str, ...]
    arguments: str
    text: str
    call: Callable[[Session, Words], Iterable[str]]
    moves: bool = False
    is_raw: bool = False
    """Whether the rest of the line is one word, with its quotation marks."""
    complete: Callable[[Session], Sequence[str]] = lambda session: ()
    """The words that may follow the name."""


@dataclass(slots=True)
class Session:
    """A debugger of one run. `ended` is true once it was told to quit."""

    stepper: Stepper
    commands: Sequence[Command]
    repeated: str = ""
    """The last line that moved, which an empty line repeats."""
    searched: str = ""
    """The text that was searched last."""
    ended: bool = False
    live: LiveRun | None = None
    """The run in its mesh; None if it was read from a file."""
    _named: dict[str, Command] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._named = {name: command for command in self.commands for name in command.names}

    @property
    def prompt(self) -> str:
        """The prompt of the terminal."""
        held = ", ".join(question.breakpoint for question in self.stepper.view.questions if question.breakpoint)
        return f"({self.stepper.seq}/{self.stepper.run.last_seq}{f' at {held}' if held else ''}) "

    def execute(self, line: str) -> Iterator[str]:
        """Yields the lines that a typed line prints. Raises CliError if it is no command, or cannot be executed."""
        line = line.strip() or self.repeated
        if not line:
            return
        if line[0] in "/?" and len(line) > 1:
            line = f"{'search' if line[0] == '/' else 'back search'} {shlex.quote(line[1:])}"
        name, _, rest = line.partition(" ")
        command = self._named.get(name)
        if command is None:
            raise CliError(f"unknown command {name!r}", hint="`help` lists the commands.", code=USAGE)
        try:
            words = list(filter(None, [rest.strip()])) if command.is_raw else shlex.split(rest)
        except ValueError as error:
            raise CliError(f"cannot read the line: {error}", code=USAGE) from None
        if command.moves:
            self.repeated = line
        yield from command.call(self, words)

    def live_run(self) -> LiveRun:
        """Returns the run in its mesh. Raises CliError if it was read from a file."""
        if self.live is None:
            raise CliError("this run was read from a file: it cannot be held, or go on", code=USAGE)
        return self.live

    def refresh(self) -> None:
        """Reads the run again, and stays at the same event."""
        seq = self.stepper.seq
        self.stepper = Stepper(self.live_run().fetch())
        self.stepper.go(seq)

    def moved(self) -> Iterator[str]:
        """Yields the lines of the event that the debugger is at now."""
        return event_lines(self.stepper)

    def task_id(self, words: Words) -> str:
        """Returns the task that is meant: the one that is named, else the one of the event here. Raises CliError if
        there is none, or several have that name."""
        if not words:
            if not self.stepper.event.task_id:
                raise CliError("this event concerns the run: name a task, a step or a role", code=USAGE)
            return self.stepper.event.task_id
        name = " ".join(words)
        tasks = self.stepper.named(name)
        if not tasks:
            raise CliError(f"the run has no task, step or role {name!r}", code=NOT_FOUND)
        if len(tasks) > 1:
            ids = ", ".join(task.task_id.partition(".")[2] for task in tasks[:5])
            more = ", ..." if len(tasks) > 5 else ""
            raise CliError(f"{len(tasks)} tasks are named {name!r}", hint=f"Use a number: {ids}{more}.", code=USAGE)
        return tasks[0].task_id

    def completions(self, words: Words) -> Sequence[str]:
        """Returns the words that may come in the place of the last one."""
        if len(words) <= 1:
            return [command.names[0] for command in self.commands]
        command = self._named.get(words[0])
        return command.complete(self) if command is not None else ()


def task_names(session: Session) -> list[str]:
    """Returns the names of all tasks of the run: roles and steps, for completion."""
    tasks = session.stepper.timeline.at(session.stepper.run.last_seq).tasks.values()
    return sorted({name for task in tasks for name in (task.role, task.step_id) if name})


def one_number(words: Words, default: int) -> int:
    """Returns the number that a command was given. Raises CliError for any other word."""
    if not words:
        return default
    if len(words) > 1 or not words[0].isdecimal():
        raise CliError(f"expected a number, not {' '.join(words)!r}", code=USAGE)
    return int(words[0])


def no_words(words: Words) -> None:
    """Raises CliError if a command without arguments was given some."""
    if words:
        raise CliError(f"unexpected words: {' '.join(words)}", code=USAGE)


def by_name(commands: Iterable[Command]) -> Mapping[str, Command]:
    """Returns the commands by all of their names."""
    return {name: command for command in commands for name in command.names}
