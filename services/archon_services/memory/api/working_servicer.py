"""The wire of working memory: decode, ask the store, encode."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from archon import context
from archon.api.memory.v1 import memory_pb2
from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.errors import InvalidArgument, NotFound
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.memory.api import working_validation as validation
from archon_services.memory.domain.working import Value, WorkingStore

_LIST: Final = "working values"


class WorkingMemoryServicer:
    """WorkingMemoryService over a store. What each call fails with stands in the contract."""

    def __init__(self, store: WorkingStore) -> None:
        self._store = store

    async def GetValue(self, request: pb.GetValueRequest, _: Any) -> pb.GetValueResponse:
        """What stands."""
        validation.get_value(request)
        found = await self._store.value(_tenant(), request.scope, request.key)
        if found is None:
            raise NotFound(
                f"nothing stands under {request.key!r}", metadata={"scope": request.scope, "key": request.key}
            )
        return pb.GetValueResponse(value=_message(found))

    async def SetValue(self, request: pb.SetValueRequest, _: Any) -> pb.SetValueResponse:
        """Durable when it is answered."""
        written = await self._store.write(validation.set_value(request, _tenant()))
        assert written is not None
        return pb.SetValueResponse(value=_message(written))

    async def ListValues(self, request: pb.ListValuesRequest, _: Any) -> pb.ListValuesResponse:
        """A page; it is cut short where its values are large."""
        validation.list_values(request)
        filters = (_tenant(), request.scope, request.prefix)
        after = read_token(request.page_token, _LIST, *filters) or ""
        if not isinstance(after, str):
            raise InvalidArgument("page_token is no token of this list and filter", reason="INVALID_PAGE_TOKEN")
        page, more = await self._store.values(
            _tenant(), request.scope, prefix=request.prefix, after=after, limit=page_size(request.page_size)
        )
        token = make_token(page[-1].key, _LIST, *filters) if more else ""
        return pb.ListValuesResponse(values=map(_message, page), next_page_token=token)

    async def DeleteValue(self, request: pb.DeleteValueRequest, _: Any) -> pb.DeleteValueResponse:
        """Durable when it is answered."""
        deleted = await self._store.write(validation.delete_value(request, _tenant()))
        return pb.DeleteValueResponse(deleted=deleted is not None)


def _tenant() -> str:
    return context.current().tenant


def _message(value: Value) -> memory_pb2.WorkingValue:
    at = Timestamp()
    at.FromMicroseconds(round(value.updated_at * 1e6))
    return memory_pb2.WorkingValue(key=value.key, value_json=value.value_json, version=value.version, update_time=at)
