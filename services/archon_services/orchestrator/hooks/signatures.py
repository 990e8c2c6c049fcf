"""Signatures of webhooks: HMAC-SHA256 over the bytes of the body as they were received.

- Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
- GitHub: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
- Stripe: https://docs.stripe.com/webhooks/signature
- Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import DeliveryStale
from archon_services.orchestrator.hooks.hook import Scheme
from archon_services.orchestrator.hooks.secrets import key_of

TOLERANCE: Final = 300.0
"""Seconds by which the signed time of a delivery and the clock of the orchestrator may differ."""

MAX_SIGNATURES: Final = 16
"""Signatures of one delivery that are compared: senders that rotate a secret send several."""

SLOTS: Final = 2
"""Secrets that are tried for each delivery, so that its time does not tell how many there are, or whether there is a
hook."""

_DECOY: Final = secrets.token_bytes(32)
_NOTHING: Final = hashlib.sha256().digest()

_HEADERS: Final = {
    Scheme.STANDARD: ("webhook-signature", "webhook-timestamp", "webhook-id"),
    Scheme.GITHUB: ("x-hub-signature-256", "", "x-github-delivery"),
    Scheme.STRIPE: ("stripe-signature", "", ""),
    Scheme.SLACK: ("x-slack-signature", "x-slack-request-timestamp", ""),
}
"""The headers of the signatures, the time and the id; the time of Stripe is in the header of its signatures."""


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery as it was received. `headers` have names in lower case, each once."""

    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """Returns a header, empty if there is none. Headers of Svix have the prefix svix- in place of webhook-."""
        value = self.headers.get(name, "")
        return value or self.headers.get(name.replace("webhook-", "svix-", 1), "") if name else ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The content of a valid signature: `delivery_id` is the header with the id of the sender, empty if there is none;
    `time` is the signed time in seconds, infinite if none is signed."""

    delivery_id: str
    time: float = math.inf

    def check_time(self, now: float) -> None:
        """Raises DeliveryStale if the signed time is too far from `now`, in wall seconds."""
        if math.isinf(self.time) or abs(late := now - self.time) <= TOLERANCE:
            return
        when = f"{late:,.0f} s ago" if late > 0 else f"{-late:,.0f} s in the future"
        raise DeliveryStale(f"the delivery was signed {when}, at most {TOLERANCE:g} s are allowed")


def verified(scheme: Scheme, keys: Sequence[bytes], received: Received) -> Proof | None:
    """Returns the proof of a delivery, None if no signature is valid. Without keys, which stands for an unknown hook,
    it takes as long."""
    signatures, time, delivery_id = _claims(scheme, received)
    prefix = _prefix(scheme, time, delivery_id)
    valid = False
    for slot in range(SLOTS):
        is_key = slot < len(keys)
        expected = _mac(keys[slot] if is_key else _DECOY, prefix, received.body)
        for number in range(MAX_SIGNATURES):
            # Each is compared: a loop that ends early tells which one was valid.
            given = signatures[number] if number < len(signatures) else _NOTHING
            valid = hmac.compare_digest(expected, given) & is_key & (number < len(signatures)) | valid
    at = math.inf if scheme is Scheme.GITHUB else _seconds(time)
    if not valid or at is None or (scheme is Scheme.STANDARD and not delivery_id):
        return None
    return Proof(delivery_id, at)


def signed(scheme: Scheme, secret: str, body: bytes, now: float, *, event: str = "") -> dict[str, str]:
    """Returns the headers of a delivery with a new id, as its sender signs it."""
    key, time, delivery_id = key_of(scheme, secret), str(int(now)), f"msg_{secrets.token_hex(12)}"
    digest = _mac(key, _prefix(scheme, time, delivery_id), body)
    headers = {"content-type": "application/json"}
    if scheme is Scheme.STANDARD:
        signature = f"v1,{base64.b64encode(digest).decode()}"
        return headers | {"webhook-id": delivery_id, "webhook-timestamp": time, "webhook-signature": signature}
    if scheme is Scheme.GITHUB:
        named = {"x-github-delivery": delivery_id, "x-github-event": event or "test"}
        return headers | named | {"x-hub-signature-256": f"sha256={digest.hex()}"}
    if scheme is Scheme.STRIPE:
        return headers | {"stripe-signature": f"t={time},v1={digest.hex()}"}
    return headers | {"x-slack-request-timestamp": time, "x-slack-signature": f"v0={digest.hex()}"}


def _claims(scheme: Scheme, received: Received) -> tuple[list[bytes], str, str]:
    """Returns the signatures, the time and the id that a delivery has; texts are empty if they are missing."""
    signature, time, delivery_id = map(received.header, _HEADERS[scheme])
    if scheme is Scheme.STANDARD:
        pairs = [each.partition(",") for each in signature.split(" ")]
    elif scheme is Scheme.STRIPE:
        pairs = [each.strip().partition("=") for each in signature.split(",")]
        time = next((value for name, _, value in pairs if name == "t"), "")
    else:
        pairs = [signature.partition("=")]
    version = {Scheme.GITHUB: "sha256", Scheme.SLACK: "v0"}.get(scheme, "v1")
    found = [_decoded(scheme, value) for name, _, value in pairs[: 2 * MAX_SIGNATURES] if name == version]
    return [each for each in found if each][:MAX_SIGNATURES], time, delivery_id


def _decoded(scheme: Scheme, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if scheme is Scheme.STANDARD else bytes.fromhex(text)
    except (ValueError, binascii.Error):
        return b""


def _prefix(scheme: Scheme, time: str, delivery_id: str) -> bytes:
    """Returns the bytes that are signed before the body."""
    prefixes = {
        Scheme.STANDARD: f"{delivery_id}.{time}.",
        Scheme.GITHUB: "",
        Scheme.STRIPE: f"{time}.",
        Scheme.SLACK: f"v0:{time}:",
    }
    return prefixes[scheme].encode()


def _mac(key: bytes, prefix: bytes, body: bytes) -> bytes:
    mac = hmac.new(key, prefix, hashlib.sha256)
    mac.update(body)
    return mac.digest()


def _seconds(text: str) -> float | None:
    """Returns a time in seconds, None unless the text has 1 to 12 digits."""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None
