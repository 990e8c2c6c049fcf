"""Sends notices to a URL, signed as Standard Webhooks describes (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from archon.errors import InvalidArgument, Unavailable
from archon.plain_text import iso_time
from archon_services.orchestrator.channels.notice import Notice

PREFIX: Final = "whsec_"
"""The prefix of a secret in base64."""

MIN_SECRET: Final = 24
"""Bytes of a secret at least."""

SECONDS: Final = 10.0
"""The time of one request."""


class Webhook:
    """Posts a JSON object to a URL; a status below 300 accepts it. Redirects are not followed.

    Three headers let the receiver check the sender and drop duplicates: `webhook-id` (the notice's id),
    `webhook-timestamp` (seconds) and `webhook-signature`, which is `v1,` and the HMAC-SHA256 of id, timestamp and body
    in base64.
    """

    name = "webhook"

    def __init__(self, url: str, secret: str, now: Callable[[], float], *, insecure: bool = False) -> None:
        """`secret` is a text, or `whsec_` and base64. Raises InvalidArgument if the URL is neither https nor on this
        machine (unless `insecure`), or the secret is too short."""
        import httpx2  # slow to import, and few orchestrators have a webhook

        _check_url(url, insecure=insecure)
        self._url = url
        self._key = key_of(secret)
        self._now = now
        self._client = httpx2.AsyncClient(timeout=SECONDS, follow_redirects=False, trust_env=False)

    async def notify(self, notice: Notice) -> None:
        now = self._now()
        body = body_of(notice, now)
        headers = {"content-type": "application/json", **signature_headers(self._key, notice.id, now, body)}
        # The body of the answer says nothing that is needed, and may be of any size: it is not read.
        async with self._client.stream("POST", self._url, content=body, headers=headers) as response:
            if response.status_code >= 300:
                raise Unavailable(f"the webhook answered {response.status_code}")

    async def close(self) -> None:
        await self._client.aclose()


def key_of(secret: str) -> bytes:
    """Returns the key of a secret. Raises InvalidArgument."""
    try:
        key = (
            base64.b64decode(secret.removeprefix(PREFIX), validate=True)
            if secret.startswith(PREFIX)
            else secret.encode()
        )
    except binascii.Error:
        raise InvalidArgument(f"webhook_secret: not {PREFIX} and base64") from None
    if len(key) < MIN_SECRET:
        raise InvalidArgument(f"webhook_secret: at least {MIN_SECRET} bytes")
    return key


def body_of(notice: Notice, now: float) -> bytes:
    """Returns the body of a request; `now` is in wall seconds."""
    data = {
        "id": notice.id,
        "run_id": notice.run_id,
        "input_id": notice.input_id,
        "role": notice.role,
        "text": notice.text,
        "approvers": list(notice.approvers),
        "expires": iso_time(notice.expires) if notice.expires else None,
        "command": notice.command,
    }
    content = {"type": "question.asked", "timestamp": iso_time(now), "data": data}
    return json.dumps(content, ensure_ascii=False).encode()


def signature_headers(key: bytes, id_: str, now: float, body: bytes) -> dict[str, str]:
    """Returns the headers by which the receiver checks a request."""
    timestamp = str(int(now))
    signed = f"{id_}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {"webhook-id": id_, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def _check_url(url: str, *, insecure: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidArgument(f"webhook_url: not an https URL: {parts.scheme}://{parts.hostname or ''}")
    if not insecure and not is_loopback(parts.hostname):
        raise InvalidArgument("webhook_url: http is for this machine only; set webhook_insecure to allow it")


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is this machine's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
