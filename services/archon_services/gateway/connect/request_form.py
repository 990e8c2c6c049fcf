"""Checks the form of a request for an RPC before the Connect library reads it: its method and its content type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from archon.errors import ArchonError, InvalidArgument, Unimplemented
from archon_services.gateway.descriptors import Rpc

UNARY: Final = ("application/json", "application/proto")
STREAMS: Final = ("application/connect+json", "application/connect+proto")
GRPC_WEB: Final = ("application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json")
ANY: Final = (*UNARY, *STREAMS, *GRPC_WEB)


def content_type(headers: Mapping[str, str]) -> str:
    """Returns the content type without parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def fault_of(rpc: Rpc | None, name: str, method: str, given: str) -> tuple[int, ArchonError] | None:
    """Returns the HTTP status and the error of a request in a form that is not served; None if there is nothing to
    object to. `given` is the content type."""
    if rpc is None:
        return 404, Unimplemented(f"the contract has no RPC {name}", metadata={"method": name})
    if method != "POST":
        return 405, InvalidArgument(f"{rpc.name} takes POST, not {method[:20]}")
    if rpc.client_streaming:
        return 501, Unimplemented(
            f"{rpc.name} has a stream of requests, which the HTTP gateway does not serve: call the service over gRPC",
            metadata={"method": rpc.path},
        )
    if given == "application/grpc" or given.startswith("application/grpc+"):
        return 415, InvalidArgument(
            "gRPC needs HTTP/2 with trailers: call the service at its own port, or use application/grpc-web+proto"
        )
    if rpc.server_streaming and given in UNARY:
        return 415, InvalidArgument(f"{rpc.name} answers with a stream: send {' or '.join(STREAMS)}, or GRPC-Web")
    if given not in ANY or (given in STREAMS and not rpc.server_streaming):
        allowed = (*STREAMS, *GRPC_WEB) if rpc.server_streaming else (*UNARY, *GRPC_WEB)
        return 415, InvalidArgument(
            f"{rpc.name} takes no content type {given[:60]!r}: send one of {', '.join(allowed)}"
        )
    return None
