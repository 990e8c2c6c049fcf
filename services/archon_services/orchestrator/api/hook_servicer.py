"""The HookService: decodes requests, calls one interface, encodes responses."""

from __future__ import annotations

from typing import Any, Final

from archon import context as call
from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.api.orchestrator.v1 import hook_service_pb2_grpc
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.api.hook_deliveries import HookDeliveries
from archon_services.orchestrator.api.hooks import HookCommands
from archon_services.orchestrator.convert.hook import delivery_to_proto, hook_to_proto
from archon_services.orchestrator.hooks.hook import Hook

HOOK_SERVICE: Final = "archon.api.orchestrator.v1.HookService"

MAX_PAGE: Final = 100
"""Hooks of a page: each is read with its run."""


class HookServicer(hook_service_pb2_grpc.HookServiceServicer):
    """Serves the hooks of the caller's tenant."""

    def __init__(self, commands: HookCommands, deliveries: HookDeliveries) -> None:
        self._commands = commands
        self._deliveries = deliveries

    def _message(self, hook: Hook, *, details: bool = True) -> pb.Hook:
        return hook_to_proto(hook, self._commands.store.now(), details=details)

    async def CreateHook(self, request: pb.CreateHookRequest, context: Any) -> pb.CreateHookResponse:
        hook, secret = await self._commands.create(request)
        return pb.CreateHookResponse(hook=self._message(hook), secret=secret)

    async def GetHook(self, request: pb.GetHookRequest, context: Any) -> pb.GetHookResponse:
        return pb.GetHookResponse(hook=self._message(await self._commands.get(request.name)))

    async def ListHooks(self, request: pb.ListHooksRequest, context: Any) -> pb.ListHooksResponse:
        after = read_token(request.page_token, "hooks", like="") or ""
        size = min(MAX_PAGE, page_size(request.page_size))
        hooks = await self._commands.store.page(call.current().tenant, after, size + 1)
        out = pb.ListHooksResponse(hooks=[self._message(hook, details=False) for hook in hooks[:size]])
        if len(hooks) > size:
            out.next_page_token = make_token(hooks[size - 1].name, "hooks")
        return out

    async def UpdateHook(self, request: pb.UpdateHookRequest, context: Any) -> pb.UpdateHookResponse:
        return pb.UpdateHookResponse(hook=self._message(await self._commands.update(request)))

    async def RotateHookSecret(self, request: pb.RotateHookSecretRequest, context: Any) -> pb.RotateHookSecretResponse:
        hook, secret = await self._commands.rotate(request)
        return pb.RotateHookSecretResponse(hook=self._message(hook), secret=secret)

    async def PauseHook(self, request: pb.PauseHookRequest, context: Any) -> pb.PauseHookResponse:
        return pb.PauseHookResponse(hook=self._message(await self._commands.pause(request)))

    async def ResumeHook(self, request: pb.ResumeHookRequest, context: Any) -> pb.ResumeHookResponse:
        return pb.ResumeHookResponse(hook=self._message(await self._commands.resume(request)))

    async def DeleteHook(self, request: pb.DeleteHookRequest, context: Any) -> pb.DeleteHookResponse:
        await self._commands.delete(request)
        return pb.DeleteHookResponse()

    async def ListDeliveries(self, request: pb.ListDeliveriesRequest, context: Any) -> pb.ListDeliveriesResponse:
        name = (await self._commands.get(request.name)).name
        before = read_token(request.page_token, "deliveries", name, like=0) or 0
        size = page_size(request.page_size)
        deliveries = await self._commands.store.deliveries(call.current().tenant, name, before, size + 1)
        out = pb.ListDeliveriesResponse(deliveries=[delivery_to_proto(each) for each in deliveries[:size]])
        if len(deliveries) > size:
            out.next_page_token = make_token(deliveries[size - 1].number, "deliveries", name)
        return out

    async def SignDelivery(self, request: pb.SignDeliveryRequest, context: Any) -> pb.SignDeliveryResponse:
        hook, headers = await self._commands.sign(request)
        signed = [pb.DeliveryHeader(name=name, value=value) for name, value in headers.items()]
        return pb.SignDeliveryResponse(headers=signed, path=hook.path)

    async def Deliver(self, request: pb.DeliverRequest, context: Any) -> pb.DeliverResponse:
        return await self._deliveries.take(request)
