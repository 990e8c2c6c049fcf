"""`archon memory`: reads, publishes and clears the items of shared memory."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon.plain_text import counted
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import JsonOption, OrchestratorOption
from archon_services.cli.render.output import print_json, print_stderr, print_table
from archon_services.cli.target.mesh import connecting, find_memory, find_orchestrator, orchestrator_client
from archon_services.cli.text_input import read_text
from archon_services.reports.texts import age, one_line, strip_controls

if TYPE_CHECKING:
    from archon.memory import MemoryItem

memory = typer.Typer(no_args_is_help=True)

FINAL: Final = "final_response_only"
"""The policy of a role's answer, which is its item unless another policy is named."""

_HEADERS: Final = ("item", "version", "age", "characters", "begins with")
_RIGHT: Final = (1, 2, 3)
_FOLDED: Final = (4,)
_BEGINNING: Final = 60

SessionOption = Annotated[str, typer.Option("--session", metavar="ID", help="The session whose memory it is.")]
RunOption = Annotated[
    str,
    typer.Option("--run", metavar="RUN", help="The run whose memory it is, with its session's, if it has one."),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory",
        envvar="ARCHON_MEMORY",
        metavar="HOST:PORT",
        help="The memory service; by default the one of the context in use, or of the mesh in ARCHON_HOME.",
    ),
]


@memory.callback()
def _group() -> None:
    """Read, publish and clear the shared memory of a session or a run; search and keep long-term memory."""


@memory.command("get")
def get(
    item: Annotated[
        str,
        typer.Argument(
            metavar="[ROLE|ITEM]",
            help="A role, for its answer, or an item, such as designer/full_history; by default all are listed.",
        ),
    ] = "",
    session: SessionOption = "",
    run: RunOption = "",
    as_json: JsonOption = False,
    address: MemoryOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Print an item of shared memory, or list all items.

    Without --session and --run it is the memory of the newest run.
    """
    scope = asyncio.run(_scope(session, run or ("" if session else "last"), orchestrator))
    items = asyncio.run(_items(find_memory(address), scope))
    if item:
        _print_item(_find(items, item, scope), as_json=as_json)
    else:
        _print_list(items, scope, as_json=as_json)


@memory.command("publish")
def publish(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role whose answer it is.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; `-` reads standard input.")],
    session: SessionOption = "",
    run: RunOption = "",
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.001, help="The time to live; by default without an end.")
    ] = None,
    address: MemoryOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Publish a text as the answer of a role.

    Roles that depend on it receive it with the next run of the session. Needs --session or --run.
    """
    content = read_text(text, None, "text", hint='archon memory publish designer "Use SQLite." --session s1')
    assert isinstance(content, str)  # there is no file
    scope = asyncio.run(_scope(session, run, orchestrator))
    published, known = asyncio.run(_publish(find_memory(address), scope, role, content, ttl))
    if not known:
        print_stderr(f"note: no instance and no edge names the role {role}: no role receives this item")
    print(f"Published version {published.version} of {role} in {scope}.")


@memory.command("clear")
def clear(
    session: SessionOption = "",
    run: RunOption = "",
    address: MemoryOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Delete all items of a session or a run. Needs --session or --run."""
    scope = asyncio.run(_scope(session, run, orchestrator))
    print(f"Deleted {counted(asyncio.run(_clear(find_memory(address), scope)), 'item')} of {scope}.")


async def _scope(session: str, run: str, orchestrator: str) -> str:
    """Returns the scope: the session or the run's scope. Raises CliError if not exactly one of them is given."""
    if bool(session) == bool(run):
        problem = "--session and --run are mutually exclusive" if run else "missing --session or --run"
        raise CliError(problem, hint="`--run last` names the newest run.", code=USAGE)
    if session:
        return session
    from archon_services.cli.target.run import find_run_id

    target = find_orchestrator(orchestrator)
    async with orchestrator_client(target) as client:
        found = await client.get(await find_run_id(client, run))
    return found.session_id or found.run_id


async def _items(address: str, scope: str) -> list[dict[str, Any]]:
    """Returns the items of a scope as JSON types, with their names as `item`; answers come first."""
    from archon.memory import MemoryGraphClient

    with connecting("memory service", address):
        async with MemoryGraphClient(address, scope) as client:
            items = (await client.to_dict())["items"]
    named = [{"item": _name(item["source_id"], item["policy"]), **item} for item in items]
    return sorted(named, key=lambda item: (item["source_id"], item["policy"] != FINAL, item["policy"]))


async def _publish(address: str, scope: str, role: str, text: str, ttl: float | None) -> tuple[MemoryItem, bool]:
    """Returns the item, and whether the role was known before."""
    from archon.memory import MemoryGraphClient

    with connecting("memory service", address):
        async with MemoryGraphClient(address, scope) as client:
            known = await client.has_node(role)
            item = await client.publish(role, text, ttl=ttl)
    assert item is not None  # the text is not blank
    return item, known


async def _clear(address: str, scope: str) -> int:
    from archon.memory import MemoryGraphClient

    with connecting("memory service", address):
        async with MemoryGraphClient(address, scope) as client:
            return await client.clear_published_data()


def _name(role: str, policy: str) -> str:
    return role if policy == FINAL else f"{role}/{policy}"


def _find(items: list[dict[str, Any]], name: str, scope: str) -> dict[str, Any]:
    for item in items:
        if name in (item["item"], f"{item['source_id']}/{item['policy']}"):
            return item
    names = ", ".join(item["item"] for item in items)
    hint = f"Its items are {names}." if names else "`archon memory get --session ID` lists the items of a session."
    raise CliError(f"there is no item {name!r} in {scope}", hint=hint, code=NOT_FOUND)


def _print_item(item: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(item)
    else:
        print(strip_controls(item["content"]))


def _print_list(items: list[dict[str, Any]], scope: str, *, as_json: bool) -> None:
    if as_json:
        print_json(items)
        return
    if not items:
        print(f"There are no items in {scope}.")
        return
    rows = [
        (
            item["item"],
            f"v{item['version']}",
            age(time.time() - item["timestamp"]),
            f"{len(item['content']):,}",
            one_line(item["content"], _BEGINNING),
        )
        for item in items
    ]
    print_table(_HEADERS, rows, right=_RIGHT, folded=_FOLDED)
