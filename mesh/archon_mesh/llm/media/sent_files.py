"""Files that go to the server of a model: fitted to its limits, and left out once it has refused them."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from archon.errors import ArchonError, FieldViolation, InvalidArgument, MessageTooLarge, NotFound, Unavailable
from archon.failure_kinds import CONTEXT_OVERFLOW
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import ModelChunk, ModelRequest
from archon_mesh.llm.chunks import is_visible
from archon_mesh.llm.media.fit import current_run, fitted, is_users
from archon_mesh.llm.media.profile import MediaProfile

T = TypeVar("T")
Stream = Callable[[ModelRequest], AsyncGenerator[ModelChunk]]

_log = logging.getLogger(__name__)

MAX_REFUSED: Final = 1_000
"""Files that a client remembers as refused; then it forgets all of them."""

_NAMES_FILES = re.compile(
    r"(?i)image|audio|vision|multi-?modal|mmproj|document|attachment|\bpdf\b|\bfiles?\b|file_|content[ _](?:part|type)"
    r"|base64|media[ _]type|(?:valid|be a|expected a?) ?string|expected .?text"
)
_TAKES_NONE = re.compile(
    r"(?i)(?:not|n't) (?:support|accept|multi-?modal)|unsupported|that support|missing data required|unknown variant"
    r"|only supports? text|mmproj|not found in the model"
)
"""The messages of servers, with a status of their own failure too, about a model that takes no files."""


class SentFiles:
    """The files of the requests of one client."""

    def __init__(self, profile: MediaProfile, model: str) -> None:
        self._profile = profile
        self._model = model
        self._refused: set[str] = set()
        """Digests of files of tool results and earlier runs that the server has refused."""

    async def sent(self, request: ModelRequest, send: Callable[[ModelRequest], Awaitable[T]]) -> T:
        """Returns the result of `send` for the request with the files that the model takes; without files of results
        that its server refuses. Raises the errors of `send` and `fitted`, and InvalidArgument, which is not retried, if
        the server refuses the user's files."""
        while True:
            sendable = self.fit(request)
            try:
                return await send(sendable)
            except ArchonError as error:
                if not self._learns_from(error, request, sendable):
                    raise

    def streamed(self, request: ModelRequest, stream: Stream) -> AsyncGenerator[ModelChunk]:
        """Returns the stream of a request, whose files `stream` fits; as `sent` does, it begins anew without files of
        results that the server refuses, also if it says so within the stream, before a part of the reply."""
        return self._streamed(request, stream) if _has_files(request) else stream(request)

    async def _streamed(self, request: ModelRequest, stream: Stream) -> AsyncGenerator[ModelChunk]:
        while True:
            sent, has_begun = self.fit(request), False
            try:
                async with aclosing(stream(request)) as chunks:
                    async for chunk in chunks:
                        has_begun |= is_visible(chunk)
                        yield chunk
                return
            except ArchonError as error:
                if has_begun or not self._learns_from(error, request, sent):
                    raise
            yield ModelChunk()  # shows that the call is not silent

    def fit(self, request: ModelRequest) -> ModelRequest:
        """Returns the request with the files that the model takes. Raises InvalidArgument as `fitted` does."""
        return fitted(request, self._profile, self._model, self._refused)

    def _learns_from(self, error: ArchonError, request: ModelRequest, sent: ModelRequest) -> bool:
        """Returns whether an error says that the server refuses files of results, which are left out from now on.
        Raises InvalidArgument if it refuses the user's files."""
        labels = {file.digest: file.label for message in sent.messages for file in message.files}
        if not labels or not _is_about_files(error):
            return False
        user, results, earlier = _by_owner(request.messages)
        # Without files of results that are new, one of those before is to blame.
        digests = [digest for digest in results or earlier if digest in labels]
        if user or not digests:
            named = ", ".join(labels[digest] for digest in user or labels if digest in labels)
            kind = type(error) if isinstance(error, InvalidArgument) else InvalidArgument
            raise kind(
                f"the server of the model {self._model} refuses the request with {named}: {error.message}; if the "
                "model does not take such files, `media` of its `server` says so",
                field_violations=[FieldViolation("messages", f"the server refuses a request with {named}")],
                metadata={**error.metadata, "model": self._model, "setting": "media"},
            ) from None
        _log.warning("%s: the server refuses files, which are left out: %s", self._model, error.message)
        if len(self._refused) + len(digests) > MAX_REFUSED:
            self._refused.clear()
        self._refused.update(digests)
        return True


def _has_files(request: ModelRequest) -> bool:
    return any(message.files for message in request.messages)


def _is_about_files(error: ArchonError) -> bool:
    """Whether a server has refused a request because of its files."""
    if error.kind == CONTEXT_OVERFLOW:
        return False
    if isinstance(error, MessageTooLarge):
        return True
    if not _NAMES_FILES.search(error.message):
        return False
    if isinstance(error, (InvalidArgument, NotFound)):
        return not isinstance(error, NotFound) or _TAKES_NONE.search(error.message) is not None
    return isinstance(error, Unavailable) and _TAKES_NONE.search(error.message) is not None


def _by_owner(messages: Sequence[ChatMessage]) -> tuple[list[str], list[str], list[str]]:
    """Returns the digests of files: the user's and those in results after the last reply, and all others that may be
    left out."""
    user: list[str] = []
    results: list[str] = []
    earlier: list[str] = []
    current, is_new = current_run(messages), True
    for message in reversed(messages):
        is_new = is_new and message.role != "assistant"
        digests = [file.digest for file in message.files]
        if not is_users(message, current):
            (results if is_new else earlier).extend(digests)
        elif is_new:
            user.extend(digests)
    return user, results, earlier
