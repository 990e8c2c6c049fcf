"""The forms of messages: Protocol Buffers in binary, and their JSON. A body that is neither is a typed error."""

from __future__ import annotations

from typing import Any

from connectrpc.codec import Codec
from connectrpc.compat import google_protobuf_binary_codec, google_protobuf_json_codec

from archon.errors import MalformedMessage
from archon_services.gateway.connect.errors import connect_error

SHOWN = 300
"""Characters of a parser's message that a caller gets."""

_SPACE = b" \t\r\n"


class CheckedCodec(Codec[Any, Any]):
    """A codec of the library, whose failures to decode are MalformedMessage."""

    def __init__(self, codec: Codec[Any, Any]) -> None:
        self._codec = codec

    def name(self) -> str:
        return self._codec.name()

    def encode(self, message: Any) -> bytes:
        return self._codec.encode(message)

    def decode(self, data: bytes | bytearray, message_class: type[Any]) -> Any:
        name = message_class.DESCRIPTOR.name
        try:
            if self.name() == "json" and data.lstrip(_SPACE)[:1] not in (b"{", b""):
                raise ValueError("it is no JSON object")  # the parser takes an empty array for an empty message
            return self._codec.decode(bytes(data), message_class)
        except Exception as error:  # noqa: BLE001 - the parsers raise many kinds
            reason = str(error)[:SHOWN]
            raise connect_error(MalformedMessage(f"the body is not the {self.name()} of a {name}: {reason}")) from None


def codecs() -> list[Codec[Any, Any]]:
    """Returns the codecs of the gateway."""
    return [CheckedCodec(google_protobuf_binary_codec()), CheckedCodec(google_protobuf_json_codec())]
