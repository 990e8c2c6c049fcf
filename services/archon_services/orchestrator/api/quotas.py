"""The quotas of the caller's tenant and identities: open streams, and the report of their use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.principal import Kind
from archon.wire import set_seconds
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.quotas import Holder, QuotaUsage
from archon_services.orchestrator.roles.registry_watch import RegistryWatch

SEE_ALL: Final = frozenset({Kind.AUDITOR, Kind.ADMIN, Kind.SERVICE})
"""Kinds of callers that see all identities of their tenant, if they act on behalf of no other."""

_NONE: Final = nullcontext()


class QuotaReports:
    """`usage` is None if there are no quotas. Raises Archon's errors."""

    def __init__(self, usage: QuotaUsage | None, roles: RegistryWatch) -> None:
        self._usage = usage
        self._roles = roles

    def stream(self, *, relayed: bool = False) -> AbstractContextManager[None]:
        """Counts a stream of the caller as open for the duration of the block. `relayed`: the caller says that it is
        another replica, which counts the stream itself. Raises QuotaExceeded."""
        if self._usage is None:
            return _NONE
        call = context.current()
        if relayed and (call.principal is None or call.principal.is_of_all_tenants):
            return _NONE
        return self._usage.stream(call.tenant, call.identity)

    def page(self, request: pb.GetQuotasRequest) -> pb.GetQuotasResponse:
        """Returns a page of the tenant and its identities. Raises InvalidArgument / INVALID_PAGE_TOKEN."""
        call = context.current()
        after = read_token(request.page_token, "quotas", call.tenant, like="")
        size = page_size(request.page_size)
        out = pb.GetQuotasResponse()
        if self._usage is None:
            return out
        set_seconds(out.day_remaining, self._usage.daily.remaining)
        for identity in self._identities(call):
            if after is not None and identity <= after:
                continue
            if len(out.uses) == size:
                out.next_page_token = make_token(out.uses[-1].identity, "quotas", call.tenant)
                break
            self._write(out.uses.add(), self._usage, Holder(call.tenant, identity))
        return out

    def _identities(self, call: context.CallContext) -> Iterator[str]:
        """Yields the identities that the caller may see, the tenant as a whole first."""
        assert self._usage is not None
        yield ""
        own, caller = call.identity, call.principal
        if caller is not None and (caller.kind not in SEE_ALL or call.actor):
            yield own
            return
        yield from sorted({own, *self._usage.identities(call.tenant)})

    def _write(self, out: pb.QuotaUse, usage: QuotaUsage, holder: Holder) -> None:
        out.tenant, out.identity = holder.tenant, holder.identity
        for number in usage.numbers(holder):
            count = out.counts.add(quota=number.quota, used=number.used)
            if number.limit is not None:
                count.limit = number.limit
        if holder.identity:
            return
        quota = usage.quotas.of_tenant(holder.tenant)
        out.weight = quota.weight
        count = out.counts.add(quota="instances", used=len(self._roles.selection.instances))
        if quota.instances is not None:
            count.limit = quota.instances
