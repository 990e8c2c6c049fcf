"""Resources for MCP clients: the content of a URI, returned by a function."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from archon.errors import InvalidArgument, ResourceExhausted, ResultRefused
from archon_mesh.core.media import Media
from archon_mesh.tools.mcp.package import check_installed
from archon_mesh.tools.mcp.serving.functions import CALL_SECONDS, Complete, OfferedFunction

if TYPE_CHECKING:
    from mcp.shared.uri_template import UriTemplate

MAX_RESOURCE_BYTES: Final = 2 * 1024 * 1024
"""Bytes of a resource."""

MAX_URI: Final = 2_000
"""Characters of the URI of a resource."""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """A resource as a client lists it. `size` is in bytes, None if it is not known."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """A template of the URIs of resources (RFC 6570) as a client lists it."""

    uri_template: str
    name: str
    description: str = ""
    media_type: str = ""


class ResourceProvider(ABC):
    """Base class of providers of resources. A method may block: it is called on a thread, unless it is async."""

    def resources(self) -> Sequence[ListedResource]:
        """Returns the resources that are listed one by one."""
        return ()

    def templates(self) -> Sequence[ListedTemplate]:
        """Returns the templates of further URIs."""
        return ()

    @abstractmethod
    async def read(self, uri: str) -> Media | None:
        """Returns the content of a resource, None if there is none of this URI. Raises ResourceExhausted above
        MAX_RESOURCE_BYTES, and the errors of the author's code."""

    async def completed(self, uri_template: str, argument: str, typed: str) -> list[str] | None:
        """Returns values of a variable of a template that begin with the typed text, None if the template is not one of
        this provider."""
        return None


class Resource(ResourceProvider):
    """A function as a resource, or as the resources of a template, created by `@resource`."""

    def __init__(self, uri: str, media_type: str, function: OfferedFunction) -> None:
        """Raises InvalidArgument if the URI is invalid, or if the variables of a template are not the parameters of the
        function, and FailedPrecondition if the package `mcp` is not installed."""
        check_installed()
        from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

        if not urlsplit(uri).scheme or len(uri) > MAX_URI:
            raise InvalidArgument(
                f"invalid URI {uri!r} of a resource: expected a scheme, and at most {MAX_URI} characters"
            )
        self.uri = uri
        self._media_type = media_type
        self._function = function
        self._template: UriTemplate | None = None
        try:
            template = UriTemplate.parse(uri)
        except InvalidUriTemplate as error:
            raise InvalidArgument(f"invalid URI {uri!r} of a resource: {error}") from None
        if template.variable_names:
            self._template = template
        if set(template.variable_names) != set(function.parameters):
            given, wanted = sorted(function.parameters), sorted(template.variable_names)
            raise InvalidArgument(f"resource {uri}: the function has the parameters {given}, the URI {wanted}")

    @override
    def resources(self) -> Sequence[ListedResource]:
        if self._template is not None:
            return ()
        function = self._function
        return (ListedResource(self.uri, function.name, function.description, self._media_type),)

    @override
    def templates(self) -> Sequence[ListedTemplate]:
        if self._template is None:
            return ()
        function = self._function
        return (ListedTemplate(self.uri, function.name, function.description, self._media_type),)

    @override
    async def read(self, uri: str) -> Media | None:
        variables: Mapping[str, Any] | None = {} if uri == self.uri else None
        if self._template is not None:
            variables = self._template.match(uri, max_uri_length=MAX_URI)
        if variables is None or any(_is_unsafe(value) for value in variables.values()):
            return None
        return _media(self.uri, self._media_type, await self._function.call(variables))

    @override
    async def completed(self, uri_template: str, argument: str, typed: str) -> list[str] | None:
        if self._template is None or uri_template != self.uri:
            return None
        return await self._function.completed(argument, typed)


def resource(
    uri: str,
    *,
    name: str = "",
    description: str = "",
    media_type: str = "",
    seconds: float = CALL_SECONDS,
    complete: Mapping[str, Complete] | None = None,
) -> Callable[[Callable[..., Any]], Resource]:
    """Makes a function, sync or async, a resource: `@resource("config://app")`, or, with a template (RFC 6570) whose
    variables are its parameters, `@resource("user://{name}")`.

    It returns a text, bytes, a file, or a JSON value, in `seconds`. `media_type` is by default `text/plain`,
    `application/octet-stream` or `application/json`. `complete` is as in `@prompt`.

    Raises InvalidArgument if the URI is invalid, or if its variables are not the parameters of the function.
    """

    def made(function: Callable[..., Any]) -> Resource:
        return Resource(uri, media_type, OfferedFunction(function, name, description, seconds, complete))

    return made


def check_size(uri: str, size: int) -> None:
    """Raises ResourceExhausted if a resource is larger than MAX_RESOURCE_BYTES."""
    if size > MAX_RESOURCE_BYTES:
        raise ResourceExhausted(f"resource {uri} has {size:,} bytes; the limit is {MAX_RESOURCE_BYTES:,}")


def _media(uri: str, media_type: str, value: Any) -> Media:
    """Returns a function's result as a file. Raises ResultRefused if it is not JSON, or ResourceExhausted."""
    if isinstance(value, Media):
        content = value
    elif isinstance(value, bytes):
        content = Media(value, media_type or "application/octet-stream")
    elif isinstance(value, str):
        content = Media(value.encode(errors="replace"), media_type or "text/plain")
    else:
        try:
            content = Media(json.dumps(value, ensure_ascii=False).encode(), media_type or "application/json")
        except (TypeError, ValueError, RecursionError) as error:
            raise ResultRefused(f"resource {uri} returns no JSON value: {error}") from None
    check_size(uri, len(content.data))
    return content


def _is_unsafe(value: str | list[str]) -> bool:
    """Returns whether a variable of a URI is an absolute path or one that leads out of a folder: the function may open
    a file of this name."""
    from mcp.shared.path_security import contains_path_traversal

    texts = value if isinstance(value, list) else [value]
    return any("\0" in text or text.startswith(("/", "\\")) or contains_path_traversal(text) for text in texts)
