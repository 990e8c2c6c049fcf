"""The connection to an instance that shares tools: each call has a deadline, and answers of any size and number are
bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from archon import context
from archon.api.common.v1 import common_pb2
from archon.api.tool.v1 import tool_service_pb2 as pb
from archon.api.tool.v1 import tool_service_pb2_grpc
from archon.channel import agent_options
from archon.errors import (
    ArchonError,
    InvalidArgument,
    LeaseExpired,
    NotFound,
    ResourceExhausted,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import TOOL_CRASH
from archon.interceptors import translated
from archon.registry import Registration
from archon.registry.instance_channel import connect_to_instance
from archon.security.credentials import Credentials
from archon.security.tokens import Audience
from archon.surrogates import without_surrogates
from archon.tools.owner.tool_owner import BEGUN
from archon.tools.result import SharedToolResult
from archon.tools.shared_tool import MAX_ARGUMENTS_BYTES
from archon.types.task_ref import TaskRef
from archon.wire import duration

LEASE_CALL_SECONDS: Final = 5.0
REVOKE_SECONDS: Final = 2.0
"""Seconds for LeaseTool and ListTools, and for RevokeLease."""

ANSWER_SECONDS: Final = 2.0
"""Seconds that an owner has to report that a call exceeded its timeout; then the caller gives up."""

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""The largest message that is taken from an owner."""

MAX_PROGRESS: Final = 1_000
"""Characters of a text of progress, and texts of one call that are passed on."""

_NOT_CONNECTED: Final = re.compile(r"failed to connect to all addresses|connections to all backends failing", re.I)
"""gRPC's text of a call that no connection took: the owner has not seen it."""


class ToolPeer:
    """An instance that shares tools. Close it."""

    def __init__(self, instance: Registration, credentials: Mapping[Audience, Credentials] | None = None) -> None:
        options = [option for option in agent_options() if option[0] != "grpc.max_receive_message_length"]
        options.append(("grpc.max_receive_message_length", MAX_ANSWER_BYTES))
        self._channel = connect_to_instance(instance, credentials, options)
        self._stub: Any = tool_service_pb2_grpc.ToolServiceStub(self._channel)

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close()

    async def lease(
        self, tool_name: str, task: TaskRef | None, instance_id: str, seconds: float, timeout: float
    ) -> str:
        """Leases a tool for `seconds`. Returns the id of the lease."""
        request = pb.LeaseToolRequest(tool_name=tool_name, duration=duration(seconds), instance_id=instance_id)
        if task is not None:
            request.task.CopyFrom(task.proto)
        answer = await self._stub.LeaseTool(request, timeout=min(timeout, LEASE_CALL_SECONDS))
        return str(answer.lease.lease_id)

    async def revoke(self, lease_id: str) -> None:
        """Ends a lease at its owner, within REVOKE_SECONDS. Raises NotFound if it has ended, and DeadlineExceeded."""
        await self._stub.RevokeLease(pb.RevokeLeaseRequest(lease_id=lease_id), timeout=REVOKE_SECONDS)

    async def execute(
        self,
        lease_id: str,
        arguments_json: str,
        seconds: float,
        key: str,
        on_progress: Callable[[str], None] | None = None,
    ) -> SharedToolResult:
        """Executes a call. Raises the errors of ExecuteTool, DeadlineExceeded if the owner does not answer in time, and
        UnknownFailure if it ends without a result."""
        request = pb.ExecuteToolRequest(
            lease_id=lease_id,
            arguments_json=arguments_json,
            timeout=duration(seconds),
            idempotency_key=without_surrogates(key),
        )
        traceparent, tracestate = context.trace()
        if traceparent:
            request.trace.CopyFrom(common_pb2.TraceContext(traceparent=traceparent, tracestate=tracestate))
        told = 0
        responses = translated(self._stub.ExecuteTool(request, timeout=seconds + ANSWER_SECONDS))
        async with aclosing(responses) as events:  # type: ignore[type-var]
            async for event in events:
                if event.HasField("result"):
                    return SharedToolResult.from_proto(event.result)
                if on_progress is not None and event.progress and told < MAX_PROGRESS:
                    told += 1
                    on_progress(event.progress[:MAX_PROGRESS])
        raise UnknownFailure("the owner of the tool ended the call without a result", kind=TOOL_CRASH)


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Returns arguments as JSON. Raises InvalidArgument if they are no JSON value, or too large."""
    try:
        text = without_surrogates(json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the arguments are no JSON object: {error}") from None
    if len(text.encode()) > MAX_ARGUMENTS_BYTES:
        raise InvalidArgument(f"the arguments have more than {MAX_ARGUMENTS_BYTES:,} bytes")
    return text


def was_not_begun(error: ArchonError) -> bool:
    """Whether a call that ended with this error was certainly not begun by its owner (contract rule 14)."""
    if error.metadata.get(BEGUN) == "true":
        return False
    if isinstance(error, (LeaseExpired, NotFound, ResourceExhausted, InvalidArgument)):
        return True
    if not isinstance(error, Unavailable):
        return False
    return error.metadata.get(BEGUN) == "false" or bool(_NOT_CONNECTED.search(error.message))
