"""Errors of the mesh as errors of the Connect protocol."""

from __future__ import annotations

from connectrpc.code import Code
from connectrpc.errors import ConnectError, ErrorDetail
from protobuf.wkt import Any

from archon import status
from archon_services.gateway.failures import connect_code


def connect_error(raised: BaseException) -> ConnectError:
    """Returns an exception of an RPC in the form of the Connect protocol, with its typed details."""
    error = status.as_error(raised)
    packed = status.to_status(error)
    details = [ErrorDetail(Any(type_url=each.type_url, value=each.value)) for each in packed.details]
    return ConnectError(Code(connect_code(error.code)), packed.message, details)
