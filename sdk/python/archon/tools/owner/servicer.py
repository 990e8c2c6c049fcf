"""ToolService: decodes calls, hands them to the shared tools, and encodes the answers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from archon import context
from archon.api.common.v1 import common_pb2
from archon.api.tool.v1 import tool_pb2, tool_service_pb2_grpc
from archon.api.tool.v1 import tool_service_pb2 as pb
from archon.errors import FieldViolation, InvalidArgument
from archon.registry.convert import tool_to_proto
from archon.tools.owner.leases import LEASE_SECONDS
from archon.tools.owner.tool_owner import ToolOwner
from archon.types.task_ref import TaskRef
from archon.wire import timestamp, to_seconds

SERVICE: Final = "archon.api.tool.v1.ToolService"

PAGE: Final = 100
MAX_PAGE: Final = 1_000
MAX_ID: Final = 128
"""Characters of a name or an id."""


class ToolServicer(tool_service_pb2_grpc.ToolServiceServicer):
    """Serves the tools that an agent shares. The proto documents the errors of each call."""

    def __init__(self, tools: ToolOwner) -> None:
        self._tools = tools

    async def ListTools(self, request: pb.ListToolsRequest, _: Any) -> pb.ListToolsResponse:
        """Lists the tools with their terms and current figures."""
        size = request.page_size or PAGE
        if not 1 <= size <= MAX_PAGE:
            raise _invalid("page_size", f"must be 1 to {MAX_PAGE:,}; 0 means {PAGE}")
        found, has_more = self._tools.page(_position(request.page_token), size)
        token = base64.urlsafe_b64encode(found[-1].name.encode()).decode() if has_more else ""
        return pb.ListToolsResponse(tools=map(tool_to_proto, found), next_page_token=token)

    async def LeaseTool(self, request: pb.LeaseToolRequest, _: Any) -> pb.LeaseToolResponse:
        """Grants a lease."""
        task = request.task if request.HasField("task") else common_pb2.TaskRef()
        ids = {"tool_name": request.tool_name, "instance_id": request.instance_id}
        ids |= {"task.task_id": task.task_id, "task.run_id": task.run_id}
        for field, value in ids.items():
            if len(value) > MAX_ID:
                raise _invalid(field, f"must have at most {MAX_ID} characters")
        seconds = to_seconds(request.duration) if request.HasField("duration") else LEASE_SECONDS
        ref = TaskRef.from_proto(task) if task.task_id else None
        lease, ends = self._tools.lease(request.tool_name, seconds, ref, request.instance_id)
        return pb.LeaseToolResponse(
            lease=tool_pb2.ToolLease(
                lease_id=lease.lease_id,
                tool_name=lease.tool_name,
                expire_time=timestamp(ends),
                max_calls_per_minute=lease.window.rate if lease.window is not None else 0,
            )
        )

    async def ExecuteTool(self, request: pb.ExecuteToolRequest, _: Any) -> AsyncIterator[pb.ExecuteToolResponse]:
        """Executes a call. A caller that leaves cancels it, unless another one waits for the same call."""
        if request.trace.traceparent:
            trace = request.trace
            call = replace(context.current(), traceparent=trace.traceparent, tracestate=trace.tracestate)
            context.enter(call)
        seconds = to_seconds(request.timeout) if request.HasField("timeout") else None
        events = self._tools.execute(request.lease_id, request.arguments_json, seconds, request.idempotency_key)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, str):
                    yield pb.ExecuteToolResponse(progress=event)
                else:
                    yield pb.ExecuteToolResponse(result=event)

    async def RevokeLease(self, request: pb.RevokeLeaseRequest, _: Any) -> pb.RevokeLeaseResponse:
        """Ends a lease for its holder, with its calls in progress."""
        self._tools.end_lease(request.lease_id)
        return pb.RevokeLeaseResponse()


def _position(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), b"-_", validate=True).decode() if token else ""
    except (binascii.Error, ValueError):
        raise InvalidArgument("page_token does not belong to this list", reason="INVALID_PAGE_TOKEN") from None


def _invalid(field: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {why}", field_violations=[FieldViolation(field, why)])
