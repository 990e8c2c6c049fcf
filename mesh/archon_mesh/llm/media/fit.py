"""Fits the files of a request to a model's limits.

A file of the user that the model does not take is an error before anything is sent: an answer that leaves it out in
silence is wrong. A file of a tool's result, or of an earlier run, is replaced by its label and the reason: it is no
mistake of the caller, and must not end a run or a session.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from archon.errors import FieldViolation, InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.core.messages import OF_RESULT, ChatMessage
from archon_mesh.llm.base import ModelRequest
from archon_mesh.llm.media.profile import NOTHING, MediaProfile

REFUSED: Final = "the model's server refused it"


@dataclass(slots=True)
class _Placed:
    """A file with its place; `why` it is not sent, empty if it is."""

    file: Media
    message: int
    number: int
    is_strict: bool
    why: str = ""

    @property
    def field(self) -> str:
        return f"messages[{self.message}].files[{self.number}]"


def fitted(request: ModelRequest, profile: MediaProfile, model: str, refused: Collection[str] = ()) -> ModelRequest:
    """Returns a request with the files that the model of a profile takes; text files are part of the text. `refused`
    are the digests of files that its server has refused.

    Raises InvalidArgument for a file of the user that is not taken, or that exceeds a limit.
    """
    if not any(message.files for message in request.messages):
        return request
    placed = list(_placed(request.messages))
    for each in placed:
        if (role := request.messages[each.message].role) not in ("user", "tool"):
            each.why = f"a message of the role {role} has no files"
        elif not (each.file.data or each.file.url):
            each.why = _empty(each)
        elif not profile.takes(each.file):
            each.why = _not_taken(each, profile, model)
        elif refused and not each.is_strict and each.file.digest in refused:
            each.why = REFUSED
    _limit_messages(placed, profile, model)
    _limit_request(placed, profile, model)
    messages = tuple(_with_files(message, placed, index) for index, message in enumerate(request.messages))
    return replace(request, messages=messages)


def _placed(messages: Sequence[ChatMessage]) -> list[_Placed]:
    current = current_run(messages)
    return [
        _Placed(file, index, number, is_users(message, current))
        for index, message in enumerate(messages)
        for number, file in enumerate(message.files)
        if file.kind != "text" or file.url
    ]


def current_run(messages: Sequence[ChatMessage]) -> str:
    """Returns the run that the newest messages belong to; empty if they name none."""
    return next((message.run_id for message in reversed(messages) if message.run_id), "")


def is_users(message: ChatMessage, current: str) -> bool:
    """Whether the files of a message are the user's in the current run."""
    if message.role != "user" or OF_RESULT in message.metadata:
        return False
    return message.run_id in ("", current)


def _empty(each: _Placed) -> str:
    if each.is_strict:
        violations = [FieldViolation(each.field, f"{each.file.label} is empty")]
        raise InvalidArgument(f"the file {each.file.label} is empty", field_violations=violations)
    return "it is empty"


def _not_taken(each: _Placed, profile: MediaProfile, model: str) -> str:
    """Returns why a file is not sent. Raises InvalidArgument if it is the user's."""
    file = each.file
    by_url = bool(file.url) and profile.takes(replace(file, url="", data=b"-"))
    what = f"{file.true_type} from a URL" if by_url else file.true_type
    if each.is_strict:
        setting = "media_urls" if by_url else "media"
        remedy = f"`{setting}` of its `server` sets what it takes" if profile is not NOTHING else "use another model"
        raise InvalidArgument(
            f"the model {model} does not take the file {file.label}: it takes {profile.accepted}, not {what}; {remedy}",
            field_violations=[FieldViolation(each.field, f"{file.label}: {model} does not take {what} ({setting})")],
            metadata={"model": model, "media_type": file.true_type, "setting": setting},
        )
    return f"the model {model} does not take {what}"


def _limit_messages(placed: Sequence[_Placed], profile: MediaProfile, model: str) -> None:
    """Leaves out files beyond the limits of a message: the first files of it are sent."""
    counts: dict[int, tuple[int, int]] = {}
    for each in placed:
        if each.why:
            continue
        files, size = counts.get(each.message, (0, 0))
        files, size = files + 1, size + len(each.file.data)
        each.why = _exceeds(each, "message", files, size, profile, model)
        if not each.why:
            counts[each.message] = files, size


def _limit_request(placed: Sequence[_Placed], profile: MediaProfile, model: str) -> None:
    """Leaves out the oldest files of results if a request has too many: by groups that fill half of the room, so that
    the beginning of the next requests is the same again, and stays cached."""
    files = size = 0
    for each in placed:
        if each.is_strict and not each.why:
            files, size = files + 1, size + len(each.file.data)
            _exceeds(each, "request", files, size, profile, model)
    room, bytes_left = profile.max_request_files - files, profile.max_request_bytes - size
    groups = _groups([each for each in placed if not each.is_strict and not each.why], room // 2, bytes_left // 2)
    while groups and (sum(map(len, groups)) > room or sum(map(_size, groups)) > bytes_left):
        for each in groups.pop(0):
            each.why = "newer files have taken its place"


def _groups(others: Sequence[_Placed], most: int, most_bytes: int) -> list[list[_Placed]]:
    """Returns files in groups of at most so many files and bytes, or of one; a further file changes the last group."""
    groups: list[list[_Placed]] = []
    for each in others:
        last = groups[-1] if groups else []
        if not last or len(last) >= most or _size(last) + len(each.file.data) > most_bytes:
            groups.append([each])
        else:
            last.append(each)
    return groups


def _size(group: Sequence[_Placed]) -> int:
    return sum(len(each.file.data) for each in group)


def _exceeds(each: _Placed, what: str, files: int, size: int, profile: MediaProfile, model: str) -> str:
    """Returns which limit a file exceeds, in words; empty if none. Raises InvalidArgument if the file is the user's."""
    limits = ((f"max_{what}_files", files, "files"), (f"max_{what}_bytes", size, "bytes of files"))
    for setting, used, noun in limits:
        limit: int = getattr(profile, setting)
        if used <= limit:
            continue
        words = f"a {what} to the model {model} has at most {limit:,} {noun} ({setting})"
        if each.is_strict:
            raise InvalidArgument(
                f"{words}; with {each.file.label} it would have {used:,}; `{setting}` of its `server` is the limit",
                field_violations=[FieldViolation(each.field, f"{each.file.label}: {words}")],
                metadata={"model": model, "setting": setting},
            )
        return words
    return ""


def _with_files(message: ChatMessage, placed: Sequence[_Placed], index: int) -> ChatMessage:
    """Returns a message with the files that are sent; its content has the texts, and labels of omitted files."""
    if not message.files:
        return message
    mine = {each.number: each for each in placed if each.message == index}
    parts, kept = [message.content], list[Media]()
    for number, file in enumerate(message.files):
        if number not in mine:
            parts.append(f"{file.name or 'file'}:\n{file.data.decode(errors='replace')}")
        elif why := mine[number].why:
            parts.append(f"The file {file.label} is not shown to you: {why}.")
        else:
            kept.append(file)
    return replace(message, content="\n\n".join(filter(None, parts)), files=tuple(kept))
