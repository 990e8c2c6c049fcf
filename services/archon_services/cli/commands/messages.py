"""`archon messages`: the messages that the agents of a run have exchanged."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.options import JsonOption, OrchestratorOption, RunArgument
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import details_removed, find_run_id, read_events

if TYPE_CHECKING:
    from archon.run_view import RunView
    from archon.run_view.message import MessageView

_HEADERS: Final = ("after", "from", "to", "type", "state", "content")
_FOLDED: Final = (4, 5)


def messages(
    run: RunArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print further ones until the run has ended.")] = False,
    unread: Annotated[
        bool, typer.Option("--unread", help="Only messages without a reader: refused, expired, or left over.")
    ] = False,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """List the messages between the agents of a run, and who has read them."""
    address = find_orchestrator(orchestrator)
    if follow:
        asyncio.run(_follow(address, run, as_json=as_json))
        return
    view = asyncio.run(_read(address, run))
    now = time.time()
    shown = [
        each for each in view.messages if not unread or each.state(now, ended=bool(view.ended)) not in ("read", "sent")
    ]
    if as_json:
        from archon_services.cli.render.output import print_json

        print_json([_document(view, each, now) for each in shown])
    elif not shown:
        print("There are no unread messages." if unread else "There are no messages.")
    else:
        from archon_services.cli.render.message_text import message_row
        from archon_services.cli.render.output import print_table

        names = {task.task_id: task.label for task in view.tasks.values()}
        print_table(_HEADERS, [message_row(view, each, now, names) for each in shown], right=(0,), folded=_FOLDED)


async def _read(orchestrator: str, name: str) -> RunView:
    from archon.run_view import RunView

    view = RunView()
    async with orchestrator_client(orchestrator) as client:
        run = await client.get(await find_run_id(client, name))
        if not await read_events(client, run, view.apply):
            raise details_removed(run.run_id)
    return view


async def _follow(orchestrator: str, name: str, *, as_json: bool) -> None:
    import json

    from archon.run_view import RunView
    from archon_services.cli.render.message_text import message_row

    view = RunView()
    async with orchestrator_client(orchestrator) as client:
        printed = 0
        async for event in client.watch(await find_run_id(client, name), durable_only=True):
            view.apply(event)
            for each in view.messages[printed:]:
                if as_json:
                    print(json.dumps(_document(view, each, time.time()), ensure_ascii=False), flush=True)
                else:
                    after, sender, to, kind, state, content = message_row(view, each, time.time(), {})
                    refused = f" ({state})" if each.failure is not None else ""
                    print(f"{after}  {sender} -> {to}  {kind}: {content}{refused}", flush=True)
            printed = len(view.messages)


def _document(view: RunView, each: MessageView, now: float) -> dict[str, object]:
    document = {**each.message.to_dict(), "state": each.state(now, ended=bool(view.ended)), "readers": each.readers}
    document["sender_task_id"] = each.task_id
    return (
        document if each.failure is None else {**document, "reason": each.failure.reason, "error": each.failure.message}
    )
