"""Converts exceptions of pydantic-ai to errors of `archon.errors`."""

from __future__ import annotations

import json

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelHTTPError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)

from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, Unauthenticated, Unavailable
from archon.failure_kinds import PROVIDER
from archon_mesh.llm.provider_errors import server_message, status_error, to_archon_error


def to_error(error: Exception, key: str) -> ArchonError:
    """Returns the Archon error for an exception of the package, without the key."""
    words = server_message(str(error), key)
    match error:
        case ModelHTTPError():
            content = json.dumps(error.body, default=str).encode()
            converted = status_error(error.status_code, error.headers or {}, content, key)
            converted.retry_delay = error.retry_after if error.retry_after is not None else converted.retry_delay
            return converted
        case ModelAuthenticationError():
            return Unauthenticated("the provider refuses the credentials")
        case ModelTimeoutError():
            return DeadlineExceeded(f"the provider did not answer in time: {words}", kind=PROVIDER)
        case ModelAPIError():
            return Unavailable(f"the provider is unreachable, or broke off its reply: {words}", kind=PROVIDER)
        case ContentFilterError():
            return InvalidArgument(f"the provider refuses the request: {words}")
        case UnexpectedModelBehavior():
            return Unavailable(f"the provider sent a reply that cannot be read: {words}", kind=PROVIDER)
        case UserError():
            return InvalidArgument(f"the request cannot be made: {words}")
    if type(error).__module__.partition(".")[0] in ("botocore", "boto3"):
        return Unavailable(f"the provider is unreachable: {words}", kind=PROVIDER)
    return to_archon_error(error, key)
