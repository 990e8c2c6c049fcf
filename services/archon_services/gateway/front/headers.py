"""Headers of every response that tell browsers to be strict."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders

DEFAULTS: Final = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
"""Unless the room has set them: a page names its own sources."""

FIXED: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}

STREAMED: Final = ("text/event-stream", "application/connect+", "application/grpc-web")
"""Content types of streams, by their beginnings."""

OF_STREAMS: Final = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
"""No cache keeps a stream, and no proxy compresses or holds back its pieces."""

STRICT_TRANSPORT: Final = "max-age=31536000"


def harden(headers: MutableHeaders, *, strict: bool) -> None:
    """Adds the headers to a response. `strict` says whether browsers have to use https alone."""
    if headers.get("content-type", "").startswith(STREAMED):
        headers.update(OF_STREAMS)
    for name, value in DEFAULTS.items():
        headers.setdefault(name, value)
    for name, value in FIXED.items():
        headers[name] = value
    if strict:
        headers["strict-transport-security"] = STRICT_TRANSPORT


def restrained(headers: MutableHeaders, status: int, url: str) -> None:
    """Removes the value `identity` of Content-Encoding, with which proxies compress nothing, and has a redirect to an
    address of the gateway itself, which begins with `url`, lead to a path: behind a proxy, the client has another
    scheme or host."""
    if headers.get("content-encoding") == "identity":
        del headers["content-encoding"]
    location = headers.get("location", "")
    if 300 <= status < 400 and location.startswith(f"{url}/"):
        headers["location"] = location[len(url) :]
