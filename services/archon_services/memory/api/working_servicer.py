"""WorkingMemoryService: decodes requests, calls the store, encodes responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from archon import context
from archon.api.memory.v1 import memory_pb2
from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.errors import NotFound
from archon.wire import timestamp
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.memory.api import working_validation as validation
from archon_services.memory.domain.working import Value
from archon_services.memory.store.port import WorkingStore

_LIST: Final = "working values"


class WorkingMemoryServicer:
    """Implements WorkingMemoryService over a store. The proto documents the errors of each call."""

    def __init__(self, store: WorkingStore) -> None:
        self._store = store

    async def GetValue(self, request: pb.GetValueRequest, _: Any) -> pb.GetValueResponse:
        """Returns the current value of a key."""
        validation.get_value(request)
        value = await self._store.value(_tenant(), request.scope, request.key)
        if value is None:
            raise NotFound(
                f"there is no value for the key {request.key!r}",
                metadata={"scope": request.scope, "key": request.key},
            )
        return pb.GetValueResponse(value=_message(value))

    async def SetValue(self, request: pb.SetValueRequest, _: Any) -> pb.SetValueResponse:
        """Sets a value, durable on return."""
        written = await self._store.write(validation.set_value(request, _tenant()))
        assert written is not None
        return pb.SetValueResponse(value=_message(written))

    async def ListValues(self, request: pb.ListValuesRequest, _: Any) -> pb.ListValuesResponse:
        """Returns a page of values, which is shorter than requested if the values are large."""
        validation.list_values(request)
        filters = (_tenant(), request.scope, request.prefix)
        after = read_token(request.page_token, _LIST, *filters, like="") or ""
        page, has_more = await self._store.values(
            _tenant(), request.scope, prefix=request.prefix, after=after, limit=page_size(request.page_size)
        )
        token = make_token(page[-1].key, _LIST, *filters) if has_more else ""
        return pb.ListValuesResponse(values=map(_message, page), next_page_token=token)

    async def DeleteValue(self, request: pb.DeleteValueRequest, _: Any) -> pb.DeleteValueResponse:
        """Deletes a value, durable on return."""
        deleted = await self._store.write(validation.delete_value(request, _tenant()))
        return pb.DeleteValueResponse(deleted=deleted is not None)

    async def WatchValues(self, request: pb.WatchValuesRequest, _: Any) -> AsyncIterator[pb.WatchValuesResponse]:
        """Streams the values of a scope, and their changes."""
        validation.watch_values(request)
        async with aclosing(self._store.watch(_tenant(), request.scope, request.prefix)) as batches:
            async for batch in batches:
                yield pb.WatchValuesResponse(
                    values=map(_message, batch.values), deleted_keys=batch.deleted, is_current=batch.is_current
                )


def _tenant() -> str:
    return context.current().tenant


def _message(value: Value) -> memory_pb2.WorkingValue:
    return memory_pb2.WorkingValue(
        key=value.key,
        value_json=value.value_json,
        version=value.version,
        update_time=timestamp(value.updated_at),
    )
