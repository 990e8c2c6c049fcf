"""Agents that work together, by the command line: patterns of a run, and the messages of one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from archon.registry import RegistryClient
from archon_services.cli.errors import NOT_FOUND, USAGE
from tests.e2e.small_mesh import small_mesh
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually

GOAL = "How many days has a leap year?"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), "requirements", "coder", "arbiter") as terminal:
        yield terminal


def test_a_committee_of_the_command_line_shows_its_votes(terminal: Terminal) -> None:
    result = terminal.archon("run", GOAL, "--pattern", "committee:3", "--role", "requirements")
    assert result.code == 0, result.err
    assert "decision (committee) decided  the answer of committee-1 has 3 of 3 votes" in result.err
    shown = terminal.archon("show", "last", "--no-answer").out
    assert "the answer of committee-1 has 3 of 3 votes" in shown
    assert "plan (plan 1)" not in result.err + shown


def test_the_first_of_two_copies_counts(terminal: Terminal) -> None:
    result = terminal.archon("run", GOAL, "--pattern", "redundant", "--role", "coder", "--quiet")
    assert result.code == 0, result.err
    assert result.out.startswith("Offline model")


async def test_an_auction_shows_its_bids_and_the_award(terminal: Terminal, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        registry = terminal.state().registry
        for quality in ("0.5", "0.9", "0.7"):
            process = ServiceProcess(
                "tests.fixtures.bidding_agent",
                tmp_path,
                BID_QUALITY=quality,
                ARCHON_REGISTRY=registry,
                ARCHON_TTL="2",
                ARCHON_HOME=str(terminal.home),
            )
            await process.start()
            stack.push_async_callback(process.stop)
        async with RegistryClient(registry, credentials=terminal.credentials) as client:

            async def listed() -> bool:
                return [each.role for each in await client.list_instances()].count("bidder") == 3

            await eventually(listed, PATIENCE)
        arguments = "run", GOAL, "--pattern", "auction:3", "--role", "bidder"
        result = await asyncio.to_thread(terminal.archon, *arguments)
        assert result.code == 0, result.err
        assert result.out.startswith("done with quality 0.9\n")
        shown = (await asyncio.to_thread(terminal.archon, "show", "last", "--no-answer")).out
    for text in (result.err, shown):
        assert "of bidder has the best of 3 bids: 1.00" in text
        assert text.count("quality 0.9  score 1.00  awarded") == 1
        assert "quality 0.5  score 0.85" in text
    assert "of a bid of $0.0001, 10.0 s, quality 0.9" in shown


def test_a_debate_is_decided_by_its_judge(terminal: Terminal) -> None:
    arguments = "--pattern", "debate:2", "--role", "coder", "--arbiter", "requirements"
    result = terminal.archon("run", GOAL, *arguments)
    assert result.code == 0, result.err
    for step in ("debate-1-a", "debate-1-b", "debate-2-a", "debate-2-b"):
        assert f"coder ({step}) completed" in result.err
    assert "requirements (debate) completed" in result.err


def test_a_swarm_takes_items_and_shows_which(terminal: Terminal) -> None:
    items = "--item", "January", "--item", "February", "--item", "March"
    result = terminal.archon("run", "How many days?", "--pattern", "swarm:2", "--role", "coder", *items)
    assert result.code == 0, result.err
    assert 'calls item 3 of 3 {"item": "March"}' in result.err
    assert result.out.count("Offline model") == 3
    gathered = terminal.archon(
        "run", "How many days?", "--pattern", "swarm:2", "--role", "coder", *items, "--gather", "requirements", "-q"
    )
    assert gathered.code == 0, gathered.err
    assert gathered.out.startswith("Offline model")


def test_an_arbiter_settles_a_conflict_and_the_run_shows_how(terminal: Terminal) -> None:
    arguments = "--pattern", "settled", "--role", "coder", "--role", "requirements", "--arbiter", "arbiter"
    result = terminal.archon("run", GOAL, *arguments, "--metadata", "dev.archon.arbiter/ways=verify,model")
    assert result.code == 0, result.err
    shown = terminal.archon("show", "last", "--no-answer").out
    assert "settled by model for settled-1" in result.err
    assert "settled by model for settled-1: the model has chosen settled-1 of coder" in shown
    assert "not settled by verify: validator has not checked settled-1 of coder: unknown role" in shown


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--pattern", "lottery:3", "--role", "coder"), "error: there is no pattern 'lottery'\nhint: Use committee:"),
        (("--pattern", "auction:1", "--role", "coder"), "error: --pattern auction:1: there must be 2 to 19 bidders"),
        (("--pattern", "auction", "--role", "coder", "--arbiter", "coder"), "error: --pattern auction takes no --arb"),
        (("--pattern", "debate", "--role", "coder"), "error: --pattern debate: give one or two --role, and the --arb"),
        (("--pattern", "debate:0", "--role", "coder", "--arbiter", "coder"), "error: --pattern debate:0: a debate has"),
        (
            ("--pattern", "committee:1", "--role", "coder"),
            "error: --pattern committee:1: there must be 2 to 19 members",
        ),
        (("--pattern", "committee:many", "--role", "coder"), "error: --pattern committee:many: 'many' is not a number"),
        (("--pattern", "hedged:5"), "error: --pattern hedged needs a --role"),
        (
            ("--pattern", "hedged:-1", "--role", "coder"),
            "error: --pattern hedged:-1: a second attempt starts after more",
        ),
        (("--pattern", "hedged:p50", "--role", "coder"), "error: --pattern hedged:p50: 'p50' is not a number"),
        (("--pattern", "hedged:nan", "--role", "coder"), "error: --pattern hedged:nan: a second attempt starts after"),
        (("--pattern", "redundant", "--role", "coder", "--arbiter", "coder"), "error: --pattern redundant takes no"),
        (("--pattern", "committee", "--strategy", "plan", "--planner", "coder"), "error: --pattern excludes --planner"),
        (("--pattern", "swarm:0", "--role", "coder"), "error: --pattern swarm:0: a swarm of this form has 1 to 18"),
        (("--pattern", "swarm", "--role", "coder", "--arbiter", "coder"), "error: --pattern swarm takes no --arbiter"),
        (("--pattern", "debate", "--role", "coder", "--item", "x"), "error: --pattern debate takes no --item"),
        (("--gather", "coder"), "error: --gather needs --pattern swarm"),
        (("--arbiter", "coder"), "error: --arbiter needs --pattern committee, settled or debate"),
    ],
)
def test_patterns_with_wrong_options_are_refused(terminal: Terminal, arguments: tuple[str, ...], error: str) -> None:
    result = terminal.archon("run", GOAL, *arguments)
    assert result.code == USAGE
    assert result.err.startswith(error)


async def test_the_messages_of_a_run_are_listed_with_their_readers(terminal: Terminal, tmp_path: Path) -> None:
    async def archon(*arguments: str) -> str:
        result = await asyncio.to_thread(terminal.archon, *arguments)
        assert result.code == 0, result.err
        return result.out

    async with AsyncExitStack() as stack:
        registry = terminal.state().registry
        for role in ("writer", "reader"):
            process = ServiceProcess(
                "tests.fixtures.messaging_agent",
                tmp_path,
                ECHO_ROLE=role,
                ARCHON_REGISTRY=registry,
                ARCHON_TTL="2",
                ARCHON_HOME=str(terminal.home),
            )
            await process.start()
            stack.push_async_callback(process.stop)
        async with RegistryClient(registry, credentials=terminal.credentials) as client:

            async def listed() -> bool:
                return {"writer", "reader"} <= {each.role for each in await client.list_instances()}

            await eventually(listed, PATIENCE)
        await archon("run", "write", "--role", "writer", "--role", "reader", "--detach")
        followed = await archon("messages", "last", "--follow")
    assert "reader -> all  status_update: ready" in followed
    assert "writer -> reader  help_request: How old is the bridge?" in followed
    assert "(refused: no task of the run receives messages for 'stranger')" in followed
    listed_text = await archon("messages", "last")
    assert "read by writer" in listed_text
    rows = json.loads(await archon("messages", "last", "--json"))
    assert [row["message_type"] for row in rows] == [
        "status_update",
        "help_request",
        "task_response",
        "notification",
        "notification",
    ]
    assert [row["state"] for row in rows] == ["read", "read", "read", "refused", "read"]
    unread = json.loads(await archon("messages", "last", "--unread", "--json"))
    assert [row["reason"] for row in unread] == ["NO_RECEIVER"]


def test_a_run_without_messages_says_so(terminal: Terminal) -> None:
    terminal.archon("run", GOAL, "--role", "coder")
    assert terminal.archon("messages", "last").out == "There are no messages.\n"
    assert terminal.archon("messages", "last", "--unread").out == "There are no unread messages.\n"
    assert terminal.archon("messages", "ffff").code == NOT_FOUND
