"""A tool of another agent as a tool of this one: model, engine, hooks and budget see no difference."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from archon import context
from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, NotFound
from archon.failure_kinds import INVALID_PARAMETERS
from archon.identifiers import check_role
from archon.json_text import json_object
from archon.tools import FoundTool, LeasedTool, SharedToolResult, SharedToolStatus, ToolClient
from archon.tools.owner.tool_owner import CALL_SECONDS
from archon.types import TaskRef
from archon_mesh.tools.mcp.listing import (
    MAX_DESCRIPTION,
    for_models,
    schema_refusal,
    validator_of,
    without_patterns,
)
from archon_mesh.tools.progress import tell_progress
from archon_mesh.tools.registry import ToolRegistry, check_namespace
from archon_mesh.tools.remote.clients import acquire, release
from archon_mesh.tools.remote_calls import call_key, current_calls
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.source import SourcedTool
from archon_mesh.tools.tool import NO_PARAMETERS

FIND_SECONDS: Final = 3.0
"""Seconds in which the owner of a tool is looked for at the start of a run."""

ANSWER_SECONDS: Final = 1.0
"""Seconds that the owner has to report a timeout, on top of the time of a call."""

MAX_PROBLEMS: Final = 10
_MAX_WHY: Final = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Offer:
    """The description of the tool by its owner, as far as it is used here."""

    role: str
    description: str
    schema: Mapping[str, Any]
    result_schema: Mapping[str, Any] | None
    idempotent: bool
    destructive: bool


class RemoteTool(SourcedTool):
    """The tool `name` that the role `role` shares, for the `tools` of an agent; without a role, the only one that
    shares a tool of this name.

    Schema, description and hints come from the owner, at the start of each run; while no live instance shares the tool,
    a warning says so, and the agent works without it. A call within a task of the mesh is leased for that task, and has
    an idempotency key unless the tool is idempotent, so that a retried attempt does not act twice.

    `registry` is host:port, by default ARCHON_REGISTRY. `timeout` limits a call, in seconds. A tool whose owner says
    that it may destroy is dangerous, unless `trusted`. With a `namespace` its name here is `namespace.name`.
    `on_progress` is called with texts of its progress."""

    shareable = False

    def __init__(
        self,
        name: str,
        role: str = "",
        *,
        registry: str = "",
        namespace: str = "",
        timeout: float = CALL_SECONDS,
        trusted: bool = False,
        on_progress: Callable[[str], None] = tell_progress,
    ) -> None:
        """Raises InvalidArgument if a name or the timeout is invalid."""
        if not name:
            raise InvalidArgument("a remote tool needs a name")
        if role:
            check_role(role)
        if namespace:
            check_namespace(namespace)
        if not 0 < timeout < float("inf"):
            raise InvalidArgument(f"remote tool {name}: timeout must be above 0 s, and finite")
        self.name = name
        self.namespace = namespace
        self.timeout = timeout + ANSWER_SECONDS
        self._seconds = timeout
        self._role = role
        self._registry = registry
        self._trusted = trusted
        self._on_progress = on_progress
        self._client: ToolClient | None = None
        self._loop: object = None
        self._offer: _Offer | None = None
        self._checked: Mapping[str, Any] = NO_PARAMETERS
        self._own_validator: Any = None
        self._warning = ""

    # Its source ------------------------------------------------------------------------------------------------------

    @override
    async def connect(self) -> None:
        try:
            client = self._connected()
            found = await client.find(name=self.name, role=self._role, timeout=FIND_SECONDS)
            if not found:
                found = await client.find(name=self.name, role=self._role, fresh=True, timeout=FIND_SECONDS)
            self._take(found)
        except ArchonError as error:
            if str(error) != self._warning:  # not again at each run
                _log.warning("remote tool %s is not available: %s", self.full_name, error)
                self._warning = str(error)
            return
        self._warning = ""

    @override
    def register(self, registry: ToolRegistry) -> None:
        if self._offer is not None:
            registry.replace_tool(self, self.namespace)

    @override
    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await release(client)

    def _connected(self) -> ToolClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            registry = self._registry or os.environ.get("ARCHON_REGISTRY", "")
            if not registry:
                raise FailedPrecondition("no registry is configured: pass `registry`, or set ARCHON_REGISTRY")
            self._client, self._loop = acquire(registry), loop
        return self._client

    def _take(self, found: list[FoundTool]) -> None:
        """Takes over the description of the tool by its best owner. Raises NotFound and FailedPrecondition if there is
        none, or if several roles share one of this name, and InvalidArgument if its schema cannot be used."""
        roles = sorted({each.role for each in found})
        if not roles:
            whose = f" of role {self._role}" if self._role else ""
            raise NotFound(f"no live instance{whose} shares it")
        known = self._offer.role if self._offer is not None else ""
        if len(roles) > 1 and known not in roles:
            raise FailedPrecondition(f"the roles {', '.join(roles[:10])} share a tool of this name: name one of them")
        role = known if known in roles else roles[0]
        refusal: InvalidArgument | None = None
        for each in found:
            if each.role != role:
                continue
            try:
                offer = _offer(each)
            except InvalidArgument as error:
                refusal = refusal or error
                continue
            self._use(offer)
            return
        raise refusal or NotFound("no live instance shares it")

    def _use(self, offer: _Offer) -> None:
        if offer == self._offer:
            return
        self._offer = offer
        self.description = offer.description
        self.parameters_schema = for_models(offer.schema)
        self.result_schema = offer.result_schema
        self.idempotent = offer.idempotent
        self.dangerous = offer.destructive and not self._trusted
        self._checked = without_patterns(offer.schema)
        self._own_validator = None

    # Its calls -------------------------------------------------------------------------------------------------------

    @override
    def validate_args(self, args: Mapping[str, Any]) -> str | None:
        if self._own_validator is None:
            from referencing import Registry

            registry: Any = Registry()  # no document but the schema is read
            self._own_validator = validator_of(self._checked)(self._checked, registry=registry)
        try:
            problems = [
                f"{'.'.join(map(str, error.absolute_path)) or '(all)'}: {error.message[:_MAX_WHY]}"
                for _, error in zip(range(MAX_PROBLEMS), self._own_validator.iter_errors(dict(args)), strict=False)
            ]
        except Exception:  # noqa: BLE001 - a schema that refers to itself without end, or to nothing: its owner checks
            return None
        return f"invalid arguments for tool {self.name}: {'; '.join(problems)}" if problems else None

    @override
    def convert_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        if (message := self.validate_args(args)) is not None:
            raise InvalidArgument(message, kind=INVALID_PARAMETERS)
        # The key is that of the call: all attempts of the engine have it.
        return {"arguments": dict(args), "key": "" if self.idempotent else call_key(self.full_name, args)}

    @override
    async def execute(self, **kwargs: Any) -> ToolResult:
        """Executes a call at the owner. Raises the errors of `LeasedTool.execute`."""
        client, calls = self._connected(), current_calls()
        leased = calls.leased((self, client), lambda: self._lease(client)) if calls is not None else None
        if leased is not None:
            return await self._call(leased, kwargs)
        async with self._lease(client) as own:
            return await self._call(own, kwargs)

    def _lease(self, client: ToolClient) -> LeasedTool:
        role = self._role or (self._offer.role if self._offer is not None else "")
        return client.lease(self.name, role=role, task=_current_task())

    async def _call(self, leased: LeasedTool, kwargs: Mapping[str, Any]) -> ToolResult:
        result = await leased.execute(
            kwargs["arguments"],
            timeout=self._seconds,
            idempotency_key=kwargs["key"],
            on_progress=self._on_progress,
        )
        return _as_tool_result(result, leased.owner)


def _current_task() -> TaskRef | None:
    """Returns the attempt of the mesh that this process works on here, or None."""
    call = context.current()
    return TaskRef(call.task_id, call.run_id, call.attempt) if call.task_id else None


def _offer(found: FoundTool) -> _Offer:
    """Returns the description of a tool by an owner. Raises InvalidArgument if its schema cannot be used."""
    tool = found.tool
    schema = json_object(tool.input_schema_json or "{}")
    if schema is None:
        raise InvalidArgument("its schema is not a JSON object")
    if (why := schema_refusal(schema)) is not None:
        raise InvalidArgument(why)
    if schema.get("type", "object") != "object":
        raise InvalidArgument("its schema does not describe an object")
    result_schema = json_object(tool.output_schema_json) if tool.output_schema_json else None
    if result_schema is not None and schema_refusal(result_schema) is not None:
        result_schema = None
    return _Offer(
        found.role,
        (tool.description or tool.title)[:MAX_DESCRIPTION],
        schema,
        result_schema,
        tool.idempotent or tool.read_only,
        tool.destructive,
    )


def _as_tool_result(result: SharedToolResult, owner: FoundTool | None) -> ToolResult:
    metadata = {"owner": owner.instance_id, "owner_role": owner.role} if owner is not None else {}
    if result.status is SharedToolStatus.SUCCESS:
        return ToolResult.success(result.content, metadata)
    failure = {key: result.metadata[key] for key in ("code", "reason", "kind") if key in result.metadata}
    if result.status is SharedToolStatus.TIMEOUT:
        return ToolResult.timeout(result.error_message, metadata | failure)
    return ToolResult.error(result.error_message, metadata | failure)
