"""The core's failure and the wire's."""

from __future__ import annotations

from archon.api.common.v1 import failure_pb2
from archon.errors import ArchonError
from archon.status import error_class, from_failure, to_failure
from archon_mesh.core.run.types import Failure


def failure_to_proto(failure: Failure) -> failure_pb2.Failure:
    """The core's failure on the wire."""
    return to_failure(failure_as_error(failure))


def failure_as_error(failure: Failure) -> ArchonError:
    """The core's failure as an error of the tree."""
    return error_class(failure.code, failure.reason)(
        failure.message, reason=failure.reason, metadata=dict(failure.metadata), retry_delay=failure.retry_delay
    )


def failure_from_error(error: ArchonError) -> Failure:
    """An error of the tree in the core."""
    return Failure(error.code, error.reason, error.message, tuple(sorted(error.metadata.items())), error.retry_delay)


def failure_from_proto(failure: failure_pb2.Failure) -> Failure:
    """The wire's failure in the core."""
    return failure_from_error(from_failure(failure))
