"""The request of a recorded call as it was sent to its provider: its bytes, and a command that sends them again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from archon.errors import FailedPrecondition
from archon.loopback import is_loopback
from archon_mesh.core.masking import MASK
from archon_mesh.core.packed_json import unpack
from archon_mesh.llm.endpoint_http import encoded
from archon_mesh.playground.recorded_call import RecordedCall

KEYS: Final[Mapping[str, str]] = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
"""The variables with the keys of the APIs."""

MAX_BODY: Final = 64 * 1024**2
"""Characters of a body: records of calls are smaller."""

_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {"anthropic": ("anthropic-version: 2023-06-01",)}


def sent_bytes(call: RecordedCall) -> bytes:
    """Returns the body of the request, the same bytes as were sent. Raises FailedPrecondition with the reason if they
    are not recorded."""
    sent = call.sent
    if not sent:
        raise FailedPrecondition(
            f"no request of {call.label} was sent over HTTP, or its agent does not record it (model {call.model})"
        )
    if sent.get("files"):
        raise FailedPrecondition(f"the request of {call.label} had files, whose contents are not recorded")
    if sent.get("masked"):
        raise FailedPrecondition(
            f"the request of {call.label} had arguments of tools that are secrets, which are not recorded"
        )
    if "body" not in sent:
        raise FailedPrecondition(f"the contents of the request of {call.label} were not recorded")
    body: Any = unpack(sent["body"], {key: value for key, value in call.data.items() if key != "sent"})
    content = _encoded(body)
    if sha256(content).hexdigest() != sent.get("sha256"):
        raise FailedPrecondition(f"the recorded request of {call.label} was changed: its SHA-256 differs")
    return content


def _encoded(body: Any) -> bytes:
    """Returns the bytes of a body. Raises FailedPrecondition if a changed record makes more than MAX_BODY of it: paths
    may name one part again and again."""
    size = 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(body):
        if (size := size + len(piece)) > MAX_BODY:
            raise FailedPrecondition(f"the recorded request has more than {MAX_BODY // 1024**2} MiB")
    return encoded(body)


def curl_command(call: RecordedCall) -> str:
    """Returns a command for bash that sends the request again, and prints the provider's answer. The key is taken from
    the provider's variable when the command is executed, and is not in the command.

    The body goes through standard input: an argument of a program has at most 128 KiB on Linux. Raises
    FailedPrecondition as `sent_bytes` does, and for an address that is not recorded in full.
    """
    content = sent_bytes(call).decode()
    url, api = str(call.sent.get("url") or ""), str(call.sent.get("api") or "")
    if not url.startswith(("http://", "https://")) or MASK in url:
        raise FailedPrecondition(f"the address of {call.label} is not recorded in full: {url}")
    headers = [
        f"--header {shlex.quote(header)}" for header in ("content-type: application/json", *_HEADERS.get(api, ()))
    ]
    if call.sent.get("has_key"):
        if api not in KEYS:
            raise FailedPrecondition(f"the key of {call.label} has no known variable")
        headers.append(f'--header "authorization: Bearer ${{{KEYS[api]}:?}}"')
    direct = ["--noproxy '*'"] if is_loopback(urlsplit(url).hostname or "") else []  # as the client does
    curl = ["curl --silent --show-error --no-buffer --globoff", *direct]
    lines = [*curl, *headers, "--data-binary @-", shlex.quote(url)]
    return f"printf %s {shlex.quote(content)} |\n" + " \\\n  ".join(lines)
