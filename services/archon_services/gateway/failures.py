"""Errors over HTTP: the status of the code, and the error as JSON in the form of the Connect protocol."""

from __future__ import annotations

import base64
import json
import math
from http import HTTPStatus
from typing import Any, Final

from google.protobuf import json_format
from google.rpc import error_details_pb2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from archon import status
from archon.errors import ArchonError, InvalidArgument, NotFound

CLIENT_CLOSED: Final = 499

HTTP_STATUS: Final = {
    "CANCELLED": CLIENT_CLOSED,
    "UNKNOWN": HTTPStatus.INTERNAL_SERVER_ERROR,
    "INVALID_ARGUMENT": HTTPStatus.BAD_REQUEST,
    "DEADLINE_EXCEEDED": HTTPStatus.GATEWAY_TIMEOUT,
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "ALREADY_EXISTS": HTTPStatus.CONFLICT,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "RESOURCE_EXHAUSTED": HTTPStatus.TOO_MANY_REQUESTS,
    "FAILED_PRECONDITION": HTTPStatus.BAD_REQUEST,
    "ABORTED": HTTPStatus.CONFLICT,
    "OUT_OF_RANGE": HTTPStatus.BAD_REQUEST,
    "UNIMPLEMENTED": HTTPStatus.NOT_IMPLEMENTED,
    "INTERNAL": HTTPStatus.INTERNAL_SERVER_ERROR,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "DATA_LOSS": HTTPStatus.INTERNAL_SERVER_ERROR,
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
}
"""By the name of a gRPC code: https://connectrpc.com/docs/protocol/#error-codes."""


def connect_code(code: str) -> str:
    """Returns the name that the Connect protocol has for a gRPC code."""
    return "canceled" if code == "CANCELLED" else code.lower()


def failure_json(error: ArchonError) -> dict[str, Any]:
    """Returns an error in the form of the Connect protocol: `code`, `message` and typed `details`."""
    details = []
    for packed in status.to_status(error).details:
        name = packed.type_url.rpartition("/")[2]
        value = base64.b64encode(packed.value).decode().rstrip("=")
        details.append({"type": name, "value": value, "debug": _debug(name, packed.value)})
    return {"code": connect_code(error.code), "message": str(error), "details": details}


def _debug(name: str, value: bytes) -> dict[str, Any]:
    message = getattr(error_details_pb2, name.rpartition(".")[2]).FromString(value)
    return json_format.MessageToDict(message)


def failure_response(error: ArchonError) -> Response:
    """Returns the response to a request that has failed."""
    content = json.dumps(failure_json(error), ensure_ascii=False)
    return Response(content, HTTP_STATUS[error.code], retry_headers(error), media_type="application/json")


def retry_headers(error: ArchonError) -> dict[str, str]:
    """Returns the header that says when to try again, if the error does."""
    return {} if error.retry_delay is None else {"retry-after": str(max(1, math.ceil(error.retry_delay)))}


async def answer_failure(request: Request, raised: Exception) -> Response:
    """The handler of errors of all routes."""
    return failure_response(status.as_error(raised))


async def not_found(request: Request, raised: Exception) -> Response:
    """The handler of requests for a path that no room has."""
    return failure_response(NotFound("the HTTP gateway has nothing at this path"))


async def wrong_method(request: Request, raised: HTTPException) -> Response:
    """The handler of requests whose method a path does not take."""
    response = failure_response(InvalidArgument(f"{request.method[:20]} is no method of this path"))
    response.status_code = HTTPStatus.METHOD_NOT_ALLOWED
    response.headers.update(raised.headers or {})
    return response
