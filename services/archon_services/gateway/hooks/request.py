"""The request of a delivery: the headers that matter, its content type, and its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from starlette.datastructures import Headers

from archon.errors import InvalidArgument, MessageTooLarge

MAX_BODY: Final = 1024 * 1024
"""Bytes of the body of a delivery."""

MAX_HEADER: Final = 4_096
"""Characters of a header that a signature is in."""

_PREFIXES: Final = ("webhook-", "svix-", "x-hub-", "x-github-", "x-slack-")
_NAMES: Final = ("stripe-signature", "content-type")

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_CHARSETS: Final = frozenset({"", "utf-8", "utf8", "us-ascii"})


class ContentRefused(InvalidArgument):
    """The body of a delivery is of a kind, or encoded in a way, that no hook reads: HTTP status 415."""


def signed_headers(headers: Headers) -> Iterator[tuple[str, str]]:
    """Yields the headers of a delivery that its verification needs, by names in lower case. Raises InvalidArgument if
    one of them comes twice, or is too long: a proxy and a receiver could each believe another one."""
    seen: set[str] = set()
    for name, value in headers.items():
        if not (name.startswith(_PREFIXES) or name in _NAMES):
            continue
        if name in seen:
            raise InvalidArgument(f"the request has the header {name[:100]} twice")
        if len(value) > MAX_HEADER:
            raise InvalidArgument(f"the header {name[:100]} has more than {MAX_HEADER:,} characters")
        seen.add(name)
        yield name, value


def check_content(headers: Mapping[str, str], body: bytes) -> None:
    """Raises ContentRefused unless the body is JSON or a form, in UTF-8 and not compressed, and MessageTooLarge."""
    if (encoding := headers.get("content-encoding", "").strip().lower()) not in ("", "identity"):
        raise ContentRefused(f"the body is compressed ({encoding[:50]}): a signature is of the bytes as they are")
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    if kind not in ("", _JSON, _FORM) and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ContentRefused(f"the body is {kind[:100]}; a hook reads {_JSON} and {_FORM}")
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in _CHARSETS:
            raise ContentRefused(f"the body is in {value[:50]}; a hook reads UTF-8")
    if len(body) > MAX_BODY:
        raise MessageTooLarge(
            f"message too large: the body has {len(body):,} bytes, at most {MAX_BODY:,} are allowed",
            metadata={"size": str(len(body)), "limit": str(MAX_BODY)},
        )
