"""How requests for resources, prompts and completions are answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from archon.errors import ArchonError, InvalidArgument
from archon_mesh.tools.failures import failed
from archon_mesh.tools.mcp.serving.changes import Changes
from archon_mesh.tools.mcp.serving.client import (
    ClientCall,
    InputRequired,
    MissingClientCapability,
    bind_client,
)
from archon_mesh.tools.mcp.serving.content import block, resource_contents
from archon_mesh.tools.mcp.serving.functions import MAX_COMPLETIONS
from archon_mesh.tools.mcp.serving.offer import McpOffer
from archon_mesh.tools.mcp.serving.person import ClientDesk
from archon_mesh.tools.mcp.serving.resources import MAX_URI, ResourceProvider
from archon_mesh.tools.people.ask import bind_desk, bind_resumable_call

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server import Server, ServerRequestContext

_log = logging.getLogger(__name__)

T = TypeVar("T")

RESOURCE_NOT_FOUND: Final = -32002
"""The code of the error for an unknown resource before version 2026-07-28 of the protocol."""

MAX_RESOURCES: Final = 2_000
"""Resources in a list; further ones can be read."""


async def answered(
    context: ServerRequestContext[Any], params: Any, changes: Changes, work: Callable[[], Awaitable[Any]]
) -> Any:
    """Returns the result of `work`, which may report to the client and ask it. Raises MCPError if the client lacks a
    needed capability, in a version of the protocol that has an error for that."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

    call = ClientCall(context, params, changes.level_of(context))
    try:
        with bind_client(call), bind_desk(ClientDesk(call)), bind_resumable_call(0):
            return await work()
    except InputRequired as required:
        return required.result()
    except MissingClientCapability as error:
        if not call.ends_to_ask:
            raise
        data: dict[str, Any] = {"requiredCapabilities": {error.capability: {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, str(error), data) from None


class OfferHandlers:
    """Answers requests about an offer."""

    def __init__(self, offer: McpOffer, changes: Changes, slots: asyncio.Semaphore) -> None:
        self._offer = offer
        self._changes = changes
        self._slots = slots

    def add_to(self, server: Server[Any]) -> None:
        """Makes a server of the MCP library answer the methods of resources and prompts."""
        import mcp_types as types

        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list_resources)
        server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, self._list_templates)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read_resource)
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, self._list_prompts)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        server.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)

    async def _list_resources(self, context: ServerRequestContext[Any], params: Any) -> types.ListResourcesResult:
        import mcp_types as types

        listed = await self._listed(lambda provider: provider.resources())
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=each.uri,
                    name=each.name,
                    description=each.description or None,
                    mime_type=each.media_type or None,
                    size=each.size,
                )
                for each in listed
            ]
        )

    async def _list_templates(
        self, context: ServerRequestContext[Any], params: Any
    ) -> types.ListResourceTemplatesResult:
        import mcp_types as types

        listed = await self._listed(lambda provider: provider.templates())
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=each.uri_template,
                    name=each.name,
                    description=each.description or None,
                    mime_type=each.media_type or None,
                )
                for each in listed
            ]
        )

    async def _listed(self, list_of: Callable[[ResourceProvider], Sequence[T]]) -> list[T]:
        """Returns the lists of the providers, up to MAX_RESOURCES, on a thread: a provider may look at files."""

        def listed() -> list[T]:
            found = (each for provider in self._offer.providers for each in list_of(provider))
            return list(islice(found, MAX_RESOURCES))

        listed_resources: list[T] = await _guarded("the list of resources", asyncio.to_thread(listed))
        return listed_resources

    async def _read_resource(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        import mcp_types as types
        from mcp.shared.exceptions import MCPError

        uri = params.uri

        async def read() -> types.ReadResourceResult:
            for provider in self._offer.providers:
                if (media := await provider.read(uri)) is not None:
                    return types.ReadResourceResult(contents=[resource_contents(uri, media)])
            raise MCPError(_not_found(context), "Resource not found", {"uri": uri})

        async with self._slots:
            result: types.ReadResourceResult | types.InputRequiredResult
            result = await _guarded(f"resource {uri:.200}", answered(context, params, self._changes, read))
        return result

    async def _subscribe(
        self, context: ServerRequestContext[Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        import mcp_types as types
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        if len(params.uri) > MAX_URI:
            raise MCPError(INVALID_PARAMS, f"the URI has more than {MAX_URI} characters")
        self._changes.subscribe(context, params.uri)
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: ServerRequestContext[Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        import mcp_types as types

        self._changes.unsubscribe(context, params.uri)
        return types.EmptyResult()

    async def _list_prompts(self, context: ServerRequestContext[Any], params: Any) -> types.ListPromptsResult:
        import mcp_types as types

        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=each.name,
                    description=each.description or None,
                    arguments=[
                        types.PromptArgument(
                            name=name, description=schema.get("description"), required=name in each.function.required
                        )
                        for name, schema in each.function.parameters.items()
                    ],
                )
                for each in self._offer.prompts
            ]
        )

    async def _get_prompt(
        self, context: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        import mcp_types as types
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        prompt = self._offer.prompt(params.name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"no prompt {params.name!r:.200}")

        async def get() -> types.GetPromptResult:
            messages = await prompt.messages(params.arguments or {})
            return types.GetPromptResult(
                description=prompt.description or None,
                messages=[types.PromptMessage(role=each.role, content=block(each.content)) for each in messages],
            )

        async with self._slots:
            result: types.GetPromptResult | types.InputRequiredResult
            result = await _guarded(f"prompt {params.name}", answered(context, params, self._changes, get))
        return result

    async def _complete(
        self, context: ServerRequestContext[Any], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        import mcp_types as types

        async with self._slots:
            values = await _guarded("completion", self._completed(params))
        shown = types.Completion(values=values[:MAX_COMPLETIONS], has_more=len(values) > MAX_COMPLETIONS)
        return types.CompleteResult(completion=shown)

    async def _completed(self, params: types.CompleteRequestParams) -> list[str]:
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS, PromptReference

        argument, typed = params.argument.name, params.argument.value
        if isinstance(params.ref, PromptReference):
            prompt = self._offer.prompt(params.ref.name)
            if prompt is None:
                raise MCPError(INVALID_PARAMS, f"no prompt {params.ref.name!r:.200}")
            return await prompt.function.completed(argument, typed)
        for provider in self._offer.providers:
            if (values := await provider.completed(params.ref.uri, argument, typed)) is not None:
                return values
        raise MCPError(INVALID_PARAMS, f"no resource template {params.ref.uri!r:.200}")


async def _guarded(name: str, work: Awaitable[Any]) -> Any:
    """Returns the result of `work`. Raises MCPError for its errors, without a traceback."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

    try:
        return await work
    except MCPError:
        raise
    except InvalidArgument as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None
    except Exception as error:  # noqa: BLE001 - an author's function may raise anything
        message = failed(error).result.error_message
        _log.warning("%s failed: %s", name, message, exc_info=None if isinstance(error, ArchonError) else error)
        raise MCPError(INTERNAL_ERROR, message) from None


def _not_found(context: ServerRequestContext[Any]) -> int:
    """Returns the code of the error for an unknown resource, which the protocol has changed."""
    from mcp_types import INVALID_PARAMS
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return INVALID_PARAMS if context.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
