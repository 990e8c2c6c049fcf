"""`archon memory search`, `conflicts`, `resolve`, `show`, `store`, `rate`, `forget`, `stats`, `export` and `import`:
long-term memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from archon_services.cli.commands.memory import MemoryOption
from archon_services.cli.commands.memory import memory as memory  # with the commands below
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import JsonOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.target.mesh import connecting, find_memory
from archon_services.cli.text_input import read_text
from archon_services.reports.texts import age, local_time, one_line, strip_controls

if TYPE_CHECKING:
    from archon.memory import LongTermEntry, LongTermMemoryClient
    from archon.memory.long_term.contradiction import Contradiction

T = TypeVar("T")

_HEADERS: Final = ("id", "score", "age", "user", "role", "memory")
_FOLDED: Final = (5,)
_BEGINNING: Final = 100
_SHOWN: Final = 68
"""Characters of a memory that `conflicts` prints."""

UserOption = Annotated[str, typer.Option("--user", metavar="USER", help="The user whom a memory is about.")]
SessionOption = Annotated[str, typer.Option("--session", metavar="ID", help="The session that a memory is from.")]
RoleOption = Annotated[str, typer.Option("--role", metavar="ROLE", help="The role that stored a memory.")]
EntryArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of a memory, as `search` prints it.")]


class Rating(StrEnum):
    """Whether a memory was useful."""

    USEFUL = "useful"
    NOT_USEFUL = "not-useful"


class Kept(StrEnum):
    """The memories that the owner keeps of those that contradict each other."""

    NEW = "new"
    OLD = "old"
    BOTH = "both"


@memory.command("search")
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The text to search for; `-` reads standard input.")],
    user: UserOption = "",
    session: SessionOption = "",
    role: RoleOption = "",
    limit: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=100, help="Memories to print at most.")] = 5,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            min=0.0,
            max=1.0,
            help="The lowest score; by default 0.7, and less while nothing is found.",
        ),
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Search archived memories, too.")] = False,
    as_json: JsonOption = False,
    address: MemoryOption = "",
) -> None:
    """Search long-term memory by meaning and by words, best first."""
    text = _text(query, "query", 'archon memory search "Which dishes suit Ana?" --user ana')
    filters = _metadata(user=user, session=session, role=role)
    found = _call(address, lambda client: client.query(text, limit, threshold, filters, with_archived=archived))
    if as_json:
        print_json([{**_as_json(each.entry), "score": each.score, "source": each.source} for each in found])
        return
    if not found:
        print("No memory was found.")
        return
    rows = [
        (
            each.entry.id,
            f"{each.score:.2f}",
            age(time.time() - each.entry.create_time),
            each.entry.metadata.get("user", ""),
            each.entry.metadata.get("role", ""),
            one_line(each.content, _BEGINNING),
        )
        for each in found
    ]
    print_table(_HEADERS, rows, right=(1, 2), folded=_FOLDED)


@memory.command("show")
def show(entry_id: EntryArgument, as_json: JsonOption = False, address: MemoryOption = "") -> None:
    """Print a memory with everything that is known of it."""
    entry = _call(address, lambda client: client.get(entry_id))
    if entry is None:
        raise _unknown(entry_id)
    if as_json:
        print_json(_as_json(entry))
        return
    facts = {
        "id": entry.id,
        "stored": local_time(entry.create_time),
        **{key: strip_controls(value) for key, value in sorted(entry.metadata.items())},
        "importance": f"{entry.importance:g}",
        "used": f"{entry.use_count} times" + (f", last {local_time(entry.last_used)}" if entry.last_used else ""),
        "ratings": f"{entry.useful} useful, {entry.not_useful} not useful",
        "state": "archived" if entry.archived else entry.embedding.value,
    }
    for name, value in facts.items():
        print(f"{name:<12}{value}")
    print(f"\n{strip_controls(entry.content)}")


@memory.command("store")
def store(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The memory; `-` reads standard input.")],
    user: UserOption = "",
    session: SessionOption = "",
    role: RoleOption = "user",
    importance: Annotated[float, typer.Option(metavar="NUMBER", min=0.0, max=1.0, help="From 0 to 1.")] = 0.5,
    address: MemoryOption = "",
) -> None:
    """Store a text in long-term memory and print its id."""
    content = _text(text, "text", 'archon memory store "Ana is vegetarian." --user ana')
    metadata = _metadata(user=user, session=session, role=role)
    print(_call(address, lambda client: client.store(content, metadata, importance)))


@memory.command("conflicts")
def conflicts(user: UserOption = "", as_json: JsonOption = False, address: MemoryOption = "") -> None:
    """List memories that contradict earlier ones, the newest first; `resolve` decides about one."""
    found = _call(address, lambda client: client.contradictions(_metadata(user=user)))
    if as_json:
        print_json([_conflict_json(each) for each in found])
    elif not found:
        print("No memory contradicts another one.")
    else:
        for each in found:
            owner = strip_controls(each.entry.metadata.get("user", ""))
            print(f"{each.entry.id}{f'  user {owner}' if owner else ''}")
            print(f"  reason   {one_line(each.reason, _SHOWN)}")
            for entry in each.earlier:
                print(f"  earlier  {one_line(entry.content, _SHOWN)}")
            print(f"  new      {one_line(each.entry.content, _SHOWN)}")
        print("\n`archon memory resolve ID` decides: `--keep new`, `old` or `both`, or `--merge`.")


@memory.command("resolve")
def resolve(
    entry_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a memory, as `conflicts` prints it.")],
    keep: Annotated[Kept | None, typer.Option(help="The newer memory, the earlier ones, or both.")] = None,
    merge: Annotated[str, typer.Option(metavar="TEXT", help="A text that takes the place of all of them.")] = "",
    address: MemoryOption = "",
) -> None:
    """Decide about memories that contradict each other: keep one, keep both, or merge them."""
    if (keep is None) == (not merge):
        raise CliError("give either --keep new, old or both, or --merge TEXT", code=USAGE)
    from archon.errors import NotFound
    from archon.memory.long_term.contradiction import Keep

    decision = Keep(keep.value) if keep is not None else Keep.BOTH
    try:
        left = _call(address, lambda client: client.resolve_contradiction(entry_id, decision, merged=merge))
    except NotFound:
        raise _unknown(entry_id) from None
    print(f"Kept {', '.join(left)}.")


def _conflict_json(found: Contradiction) -> dict[str, Any]:
    return {
        "reason": found.reason,
        "entry": _as_json(found.entry),
        "earlier": [_as_json(entry) for entry in found.earlier],
    }


@memory.command("rate")
def rate(
    entry_id: EntryArgument,
    rating: Annotated[Rating, typer.Argument(help="Whether it was useful.")],
    address: MemoryOption = "",
) -> None:
    """Rate a memory, which weighs in later searches."""
    if not _call(address, lambda client: client.feedback(entry_id, rating is Rating.USEFUL)):
        raise _unknown(entry_id)
    print(f"Rated {entry_id} as {rating.value.replace('-', ' ')}.")


@memory.command("forget")
def forget(
    entry_id: Annotated[str, typer.Argument(metavar="[ID]", help="The id of a memory.")] = "",
    user: UserOption = "",
    session: SessionOption = "",
    address: MemoryOption = "",
) -> None:
    """Delete a memory, or everything of a user, of a session, or of a user in a session."""
    if bool(entry_id) == bool(user or session):
        problem = "an id and --user or --session are mutually exclusive" if entry_id else "missing a memory to forget"
        raise CliError(problem, hint="archon memory forget --user ana", code=USAGE)
    if entry_id:
        if not _call(address, lambda client: client.delete(entry_id)):
            raise _unknown(entry_id)
        print(f"Deleted {entry_id}.")
        return
    deleted = _call(address, lambda client: client.forget(user=user or None, session=session or None))
    print(f"Memories deleted: {deleted:,}")


@memory.command("stats")
def stats(as_json: JsonOption = False, address: MemoryOption = "") -> None:
    """Print how many memories there are, and the ids of damaged ones."""

    async def read(client: LongTermMemoryClient) -> dict[str, Any]:
        counts = asdict(await client.stats())
        return {**counts, "damaged_ids": await client.damaged() if counts["damaged"] else []}

    counts = _call(address, read)
    if as_json:
        print_json(counts)
        return
    damaged = counts.pop("damaged_ids")
    for name, value in counts.items():
        print(f"{name:<10}{value:>12,}")
    for entry_id in damaged:
        print(f"damaged: {entry_id}")


@memory.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it is replaced if it exists.")],
    address: MemoryOption = "",
) -> None:
    """Write all memories, archived ones included, to a file that `import` reads."""
    try:
        written = _call(address, lambda client: client.export_to(file))
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from error
    print(f"Memories written to {file}: {written:,}")


@memory.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `export` has written.")],
    address: MemoryOption = "",
) -> None:
    """Store the memories of an export. Those that exist stay as they are."""
    print(f"New memories stored: {_call(address, lambda client: client.import_from(file)):,}")


def _call(address: str, call: Callable[[LongTermMemoryClient], Awaitable[T]]) -> T:
    """Calls the memory service and returns the result."""
    target = find_memory(address)

    async def connected() -> T:
        from archon.memory import LongTermMemoryClient

        async with LongTermMemoryClient(target) as client:
            return await call(client)

    with connecting("memory service", target):
        return asyncio.run(connected())


def _metadata(**pairs: str) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if value}


def _text(text: str, name: str, hint: str) -> str:
    content = read_text(text, None, name, hint=hint)
    assert isinstance(content, str)  # there is no file
    return content


def _as_json(entry: LongTermEntry) -> dict[str, Any]:
    return {**asdict(entry), "embedding": entry.embedding.value}


def _unknown(entry_id: str) -> CliError:
    hint = "`archon memory search` prints the ids of memories."
    return CliError(f"there is no memory {entry_id!r}", hint=hint, code=NOT_FOUND)
