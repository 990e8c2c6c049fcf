"""The target of a request: a path, or a whole URL, which clients of proxies send and every server has to accept
(RFC 9112, section 3.2.2)."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

from archon.errors import InvalidArgument

_SCHEMES: Final = (b"http://", b"https://")


def with_origin_form(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Returns the scope of a request whose target is a path. The host of a URL has to be the one of the header Host:
    of two that differ, a proxy and the gateway could each believe another one. Raises InvalidArgument."""
    raw: bytes = scope["raw_path"]
    if raw.startswith(b"/") or (raw == b"*" and scope["method"] == "OPTIONS"):
        return scope
    scheme = next((each for each in _SCHEMES if raw[: len(each)].lower() == each), None)
    if scheme is None:
        raise InvalidArgument("the target of the request is neither a path nor a URL")
    host, slash, path = raw[len(scheme) :].partition(b"/")
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if [each.lower() for each in hosts] != [host.lower()]:
        raise InvalidArgument("the URL of the request and its header Host name two hosts")
    start = scope["path"].find("/", len(scheme)) if slash else -1
    return {**scope, "raw_path": b"/" + path, "path": scope["path"][start:] if start >= 0 else "/"}
