"""`archon inbox`: the open questions of all runs."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon.plain_text import counted
from archon.wire import to_seconds
from archon_services.cli.identity import calling_as
from archon_services.cli.options import IdentityOption, JsonOption, OrchestratorOption
from archon_services.cli.render.output import print_json, print_stderr, print_table
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon.api.orchestrator.v1.run_pb2 import Question, Run
    from archon.submission import Goal

_HEADERS: Final = ("run", "question", "role", "age", "left", "approver", "text")
_RIGHT: Final = (3, 4)
_FOLDED: Final = (5, 6)
MEMORY_TIMEOUT: Final = 3.0
"""Seconds that the list waits for the memory service."""

TEXT_LENGTH: Final = 60
"""Characters of a question that the list shows."""


def inbox(
    answer: Annotated[
        bool, typer.Option("--answer", "-a", help="Answer the questions one after another; an empty line skips one.")
    ] = False,
    as_json: JsonOption = False,
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """List the open questions of all runs, those that expire first at the top; with --answer, answer them."""
    with calling_as(identity, orchestrator):
        _show(find_orchestrator(orchestrator), answer=answer, as_json=as_json)


def _show(address: str, *, answer: bool, as_json: bool) -> None:
    listed, proposed = asyncio.run(_list(address))
    questions = sorted(listed, key=_order)
    others = [] if as_json else [*_proposal(proposed), *asyncio.run(_contradictions())]
    if as_json:
        from google.protobuf import json_format

        print_json([json_format.MessageToDict(each, preserving_proto_field_name=True) for each in questions])
    elif not questions:
        print("\n".join(["No run asks a question.", *others]))
    elif answer:
        _answer_each(address, questions)
    else:
        _print(questions)
        for line in others:
            print(line)


async def _list(orchestrator: str) -> tuple[list[Question], int]:
    """Returns the open questions, and the version of the learned weights that waits for a person, 0 if none does."""
    from archon.errors import LearningOff, Unimplemented

    async with orchestrator_client(orchestrator) as client:
        questions = [question.proto for question in await client.list_questions()]
        try:
            versions = await client.learned_versions(limit=1)
        except (LearningOff, Unimplemented):
            return questions, 0
        return questions, next((each.version for each in versions if each.origin == "proposed"), 0)


def _proposal(version: int) -> list[str]:
    from archon_services.cli.commands.learning import decision_commands

    if not version:
        return []
    return [f"Version {version} of the learned weights waits for a person.", decision_commands(version)]


async def _contradictions() -> list[str]:
    """Says how many contradictions are open; nothing without a memory service that answers."""
    from archon.errors import ArchonError
    from archon.memory import LongTermMemoryClient
    from archon_services.cli.errors import CliError
    from archon_services.cli.target.mesh import find_memory

    try:
        async with asyncio.timeout(MEMORY_TIMEOUT), LongTermMemoryClient(find_memory("")) as memory:
            count = len(await memory.contradictions())
    except (ArchonError, CliError, TimeoutError):
        return []
    return [f"{counted(count, 'contradiction')} in long-term memory: `archon memory conflicts`."] if count else []


async def _send(orchestrator: str, question: Question, answer: Goal, decision: str) -> Run:
    async with orchestrator_client(orchestrator) as client:
        return (await client.respond(question.run_id, question.input_id, answer, decision=decision)).proto


def _order(question: Question) -> tuple[bool, float]:
    """Questions that expire first, then the oldest."""
    expires = question.HasField("expire_time")
    return not expires, to_seconds(question.expire_time if expires else question.create_time)


def _print(questions: list[Question]) -> None:
    now = time.time()
    print_table(_HEADERS, [_row(question, now) for question in questions], right=_RIGHT, folded=_FOLDED)
    print("\n`archon inbox --answer` answers them, `archon respond RUN --question ID` one of them.")


def _row(question: Question, now: float) -> tuple[str, ...]:
    from archon_services.cli.render.markdown_text import plain_text
    from archon_services.cli.render.questions import pending_question, truncate

    pending = pending_question(question.run_id, question)
    return (
        question.run_id[:12],
        pending.short_id,
        question.role,
        _span(now - to_seconds(question.create_time)) if question.HasField("create_time") else "",
        _span(to_seconds(question.expire_time) - now) if question.HasField("expire_time") else "",
        ", ".join(question.approvers) or "anyone",
        truncate(plain_text(strip_controls(pending.text)), TEXT_LENGTH),
    )


def _span(seconds: float) -> str:
    """Formats whole seconds, minutes, hours or days."""
    left = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if left >= size:
            return f"{left / size:.0f} {unit}"
    return f"{left:.0f} s"


def _answer_each(orchestrator: str, questions: list[Question]) -> None:
    """Asks the person at the terminal each question. One that was answered meanwhile is passed over."""
    from archon.errors import FailedPrecondition, PermissionDenied, UnknownRun
    from archon_services.cli.ask_terminal import ask_terminal, print_question
    from archon_services.cli.render.questions import pending_question

    answered = 0
    for number, question in enumerate(questions, start=1):
        pending = pending_question(question.run_id, question)
        left = _span(to_seconds(question.expire_time) - time.time()) if question.HasField("expire_time") else ""
        print_stderr(f"\n{number} of {len(questions)}: run {question.run_id[:12]}" + (f", {left} left" if left else ""))
        print_question(pending)

        def send(answer: Goal, decision: str, asked: Question = question) -> Run:
            return asyncio.run(_send(orchestrator, asked, answer, decision))

        try:
            answered += ask_terminal(pending, send, may_skip=True) is not None
        except (FailedPrecondition, PermissionDenied, UnknownRun) as error:
            print_stderr(strip_controls(str(error)))
    print(f"{answered} of {len(questions)} answered.")
    sys.stdout.flush()
