"""Errors of the mesh as errors of the Connect protocol."""

from __future__ import annotations

from typing import Any

from connectrpc.code import Code
from connectrpc.errors import ConnectError, ErrorDetail
from connectrpc.request import RequestContext
from protobuf import wkt

from archon import status
from archon_services.gateway.failures import connect_code, retry_headers

Context = RequestContext[Any, Any]


def connect_error(raised: BaseException) -> ConnectError:
    """Returns an exception of an RPC in the form of the Connect protocol, with its typed details."""
    error = status.as_error(raised)
    packed = status.to_status(error)
    details = [ErrorDetail(wkt.Any(type_url=each.type_url, value=each.value)) for each in packed.details]
    return ConnectError(Code(connect_code(error.code)), packed.message, details)


def failed(raised: Exception, context: Context) -> ConnectError:
    """Returns an exception as the error of a response, whose headers say when to try again."""
    error = status.as_error(raised)
    context.response_headers.update(retry_headers(error))
    return connect_error(error)
