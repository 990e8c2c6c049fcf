"""Changes for clients that listen: of the lists of tools and prompts, of runs as resources, and of tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import INVALID_PARAMS, INVALID_REQUEST

from archon.errors import ArchonError, NotFound, Unavailable
from archon_services.gateway.mcp.catalogue import Catalogue
from archon_services.gateway.mcp.client_line import ClientLine
from archon_services.gateway.mcp.errors import needs_tasks
from archon_services.gateway.mcp.exchange import Exchange
from archon_services.gateway.mcp.parts import RoomParts
from archon_services.gateway.mcp.resources import run_id_of
from archon_services.gateway.mcp.tasks import detailed

_log = logging.getLogger(__name__)

MAX_RUNS: Final = 50
"""Runs that one stream listens to."""

LOOK: Final = 2.0
"""Seconds between two looks at the roles, and at the credentials of a client that listens."""

MAX_WAITING: Final = 256
"""Changes that wait for a client; one that does not read more is cut off."""

_LISTS: Final = {"tools": "notifications/tools/list_changed", "prompts": "notifications/prompts/list_changed"}


class Listening:
    """Serves `subscriptions/listen`, and the streams of clients of earlier revisions."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts

    def add_to(self, server: Server[Any]) -> None:
        """Adds the handler to a server."""
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen)

    async def watch(self, exchange: Exchange) -> dict[str, Any]:
        """Tells a client of an earlier revision about changes of the lists, until it goes away."""
        with self._parts.access.held():
            changes: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue(MAX_WAITING)
            async with self._watching(changes, lists=("tools", "prompts"), runs=(), tasks=()):
                while (change := await self._next(changes)) is not None:
                    await exchange.notify(*change)
        return {}

    async def _listen(
        self, context: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        if context.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        wanted = params.notifications
        tasks = _texts((wanted.model_extra or {}).get("taskIds", []))
        if tasks and not ClientLine(context).takes_tasks:
            raise needs_tasks()
        uris = [uri for uri in wanted.resource_subscriptions or [] if run_id_of(uri)]
        if len(uris) + len(tasks) > MAX_RUNS:
            raise MCPError(INVALID_PARAMS, f"a stream listens to at most {MAX_RUNS} runs")
        lists = [name for name in _LISTS if getattr(wanted, f"{name}_list_changed")]
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        channel = context.session
        with self._parts.access.held():
            known = [task for task in tasks if await self._exists(task)]
            honoured: dict[str, Any] = {f"{name}ListChanged": True for name in lists}
            honoured |= {"resourceSubscriptions": uris} if uris else {}
            honoured |= {"taskIds": known} if known else {}
            changes: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue(MAX_WAITING)
            await _send(channel, "notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
            async with self._watching(changes, lists=lists, runs=uris, tasks=known):
                while (change := await self._next(changes)) is not None:
                    method, content = change
                    await _send(channel, method, {**content, "_meta": meta})
        return types.SubscriptionsListenResult(_meta=meta)

    async def _next(
        self, changes: asyncio.Queue[tuple[str, Mapping[str, Any]]]
    ) -> tuple[str, Mapping[str, Any]] | None:
        """Returns the next change; None once the gateway stops. Raises if the client's token is not valid any more."""
        while not self._parts.stopping.is_set():
            self._parts.access.check()
            try:
                async with asyncio.timeout(LOOK):
                    return await changes.get()
            except TimeoutError:
                continue
        return None

    async def _exists(self, run_id: str) -> bool:
        try:
            await self._parts.access.runs.get(run_id)
        except NotFound:
            return False
        return True

    @asynccontextmanager
    async def _watching(self, changes: asyncio.Queue[Any], *, lists: Any, runs: Any, tasks: Any) -> AsyncIterator[None]:
        """Has changes put into the queue within the block."""
        owner = asyncio.current_task()

        def put(method: str, content: Mapping[str, Any]) -> None:
            try:
                changes.put_nowait((method, content))
            except asyncio.QueueFull:
                if owner is not None:
                    owner.cancel()  # the client does not read

        work = [self._look(lists, put)] if lists else []
        work += [self._run_changes(run_id_of(uri), uri, put) for uri in runs]
        work += [self._task_changes(run_id, put) for run_id in tasks]
        watchers = [asyncio.create_task(each, name="watch for an MCP client") for each in work]
        try:
            yield
        finally:
            for watcher in watchers:
                watcher.cancel()
            for outcome in await asyncio.gather(*watchers, return_exceptions=True):
                if isinstance(outcome, Exception):
                    _log.warning("an MCP client was not told all changes: %s", outcome)

    async def _look(self, lists: Any, put: Any) -> None:
        before: dict[str, Any] = {}
        while True:
            try:
                mesh = await self._parts.mesh_of_caller()
            except Unavailable:
                pass
            else:
                templates = [(agent.name, agent.prompt_template) for agent in mesh.roles if agent.prompt_template]
                now = {"tools": Catalogue(mesh).digest, "prompts": templates}
                for name in lists:
                    if before and before[name] != now[name]:
                        put(_LISTS[name], {})
                before = now
            await asyncio.sleep(LOOK)

    async def _run_changes(self, run_id: str, uri: str, put: Any) -> None:
        async for _ in self._events(run_id):
            put("notifications/resources/updated", {"uri": uri})

    async def _task_changes(self, run_id: str, put: Any) -> None:
        told: Any = None
        async for _ in self._events(run_id):
            run = await self._parts.access.runs.get(run_id)
            task = detailed(run, self._parts.identity, self._parts.addresses)
            if (state := (task["status"], list(task.get("inputRequests", ())), task.get("statusMessage"))) != told:
                told = state
                put("notifications/tasks", task)

    async def _events(self, run_id: str) -> Any:
        """Yields at each change of a run, some together, and at its end."""
        run = await self._parts.access.runs.get(run_id)
        try:
            async with aclosing(self._parts.access.runs.watch(run_id, run.last_seq, durable_only=True)) as events:
                yield None
                async for event in events:
                    if event.type in ("run_state", "task_state", "result", "input_requested", "approval_requested") or (
                        event.type in ("input_given", "question_timed_out", "paused", "resumed", "dispatched")
                    ):
                        yield None
        except ArchonError:
            yield None


async def _send(channel: Any, method: str, params: Mapping[str, Any]) -> None:
    """Sends a notification on the stream of the request. The package has no type for notifications of the extension."""
    await channel.send_notification(_Raw(method, params), related_request_id="stream")


class _Raw:
    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._content = {"method": method, "params": dict(params)}

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Returns the notification as the package sends it."""
        return self._content


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
