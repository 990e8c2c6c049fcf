"""The content of a verified delivery: its body as a value, its event, and the id under which it is one delivery."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl

from archon.errors import InvalidArgument
from archon.surrogates import without_surrogates
from archon_services.orchestrator.hooks.hook import Scheme
from archon_services.orchestrator.hooks.signatures import Proof, Received

MAX_DEPTH: Final = 64
"""Objects and lists within each other in the body of a delivery."""

MAX_FIELDS: Final = 1_000
"""Fields of a body that is a form."""

MAX_EVENT: Final = 200
"""Characters of the name of an event."""

MAX_CHALLENGE: Final = 1_000
"""Characters of a challenge of Slack."""

FORM: Final = "application/x-www-form-urlencoded"

_OWN_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_CHANGING: Final = ("pending_webhooks",)
"""Members of Stripe's events that differ between tries of one delivery."""


@dataclass(frozen=True, slots=True)
class Content:
    """`body` is the value of the body, `event` is empty if the sender names none, and `challenge` is the text that
    Slack wants back before it sends deliveries to a URL, empty in all others. `digest` is equal for tries of one
    delivery."""

    body: Any
    event: str
    delivery_id: str
    digest: bytes
    challenge: str = ""

    def values(self, hook: str) -> dict[str, Any]:
        """Returns the values that templates read."""
        return {"body": self.body, "event": self.event, "delivery": self.delivery_id, "hook": hook}


def content_of(scheme: Scheme, received: Received, proof: Proof) -> Content:
    """Reads a verified delivery. Raises InvalidArgument if its body cannot be read."""
    body = _body(received)
    document: Mapping[str, Any] = body if isinstance(body, dict) else {}
    digest = _digest(scheme, received.body, document)
    delivery_id = proof.delivery_id or _id_in(scheme, document)
    if not delivery_id:
        signed = str(proof.time).encode() if scheme is Scheme.SLACK else b""
        delivery_id = f"sha256:{hashlib.sha256(signed + b'.' + received.body).hexdigest()}"
    elif not _OWN_ID.fullmatch(delivery_id):
        delivery_id = f"sha256:{hashlib.sha256(delivery_id.encode()).hexdigest()}"
    challenge = ""
    if scheme is Scheme.SLACK and document.get("type") == "url_verification":
        challenge = _text(document.get("challenge"))
        if not challenge or len(challenge) > MAX_CHALLENGE:
            raise InvalidArgument(f"a challenge has 1 to {MAX_CHALLENGE:,} characters")
    return Content(body, _event(scheme, received, document)[:MAX_EVENT], delivery_id, digest, challenge)


def _body(received: Received) -> Any:
    try:
        text = received.body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgument("the body is not UTF-8") from None
    kind = received.header("content-type").partition(";")[0].strip().lower()
    if kind == FORM:
        return _form(text)
    return _json(text) if text.strip() else {}


def _form(text: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidArgument(f"the form in the body cannot be read: {str(error)[:200]}") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidArgument(f"the form in the body has {name[:100]!r} twice")
        fields[name] = value
    if "payload" in fields:  # GitHub and Slack put a JSON object into one field
        document = _json(fields["payload"])
        return (
            document if set(fields) == {"payload"} and isinstance(document, dict) else {**fields, "payload": document}
        )
    return fields


def _json(text: str) -> Any:
    _check_depth(text)
    try:
        return _cleaned(json.loads(text, parse_constant=_refuse, object_pairs_hook=_object))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the body is not JSON: {str(error)[:200]}") from None


def _check_depth(text: str) -> None:
    """Raises InvalidArgument if brackets are nested too deep, before a parser recurses into them."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match[0][0] == '"':
            continue
        depth += 1 if match[0] in "[{" else -1
        if depth > MAX_DEPTH:
            raise InvalidArgument(f"the body has more than {MAX_DEPTH} levels")


_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _cleaned(value: Any) -> Any:
    """Returns a value whose texts every wire takes."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(name): _cleaned(item) for name, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _digest(scheme: Scheme, body: bytes, document: Mapping[str, Any]) -> bytes:
    if scheme is Scheme.STRIPE and any(name in document for name in _CHANGING):
        same = {name: value for name, value in document.items() if name not in _CHANGING}
        body = json.dumps(same, sort_keys=True).encode()
    return hashlib.sha256(body).digest()


def _id_in(scheme: Scheme, document: Mapping[str, Any]) -> str:
    """Returns the id in a body, which is signed; empty if there is none."""
    names = {Scheme.STRIPE: ("id",), Scheme.SLACK: ("event_id", "trigger_id")}.get(scheme, ())
    return next((text for name in names if (text := _text(document.get(name)))), "")


def _event(scheme: Scheme, received: Received, document: Mapping[str, Any]) -> str:
    if scheme is Scheme.GITHUB:
        event, action = received.header("x-github-event"), _text(document.get("action"))
        return f"{event}.{action}" if event and action else event
    inner = document.get("event")
    if scheme is Scheme.SLACK and isinstance(inner, dict):
        return _text(inner.get("type"))
    return _text(document.get("type")) or _text(document.get("command"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
