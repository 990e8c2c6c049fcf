"""Files of a request, fitted to what a model takes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.core.messages import OF_RESULT, ChatMessage, ToolCall
from archon_mesh.llm import MediaProfile, ModelRequest
from archon_mesh.llm.media.fit import fitted
from archon_mesh.llm.media.profile import NOTHING
from tests.fixtures.media import JPEG, PDF, PNG, WAV

IMAGE = Media(PNG, "image/png", name="a.png")
IMAGES = MediaProfile(media=("image",))
CALL = ChatMessage("assistant", tool_calls=(ToolCall("c1", "look", "{}"),))


def user(*files: Media, text: str = "Look.", run_id: str = "") -> ChatMessage:
    return ChatMessage("user", text, files=files, run_id=run_id)


def result(*files: Media, run_id: str = "") -> ChatMessage:
    labels = " ".join(file.label for file in files)
    return ChatMessage("tool", labels, tool_call_id="c1", files=files, run_id=run_id)


def fit(*messages: ChatMessage, profile: MediaProfile = IMAGES, refused: set[str] = frozenset()) -> list[ChatMessage]:  # type: ignore[assignment]
    return list(fitted(ModelRequest(messages), profile, "some-model", refused).messages)


def test_a_request_without_files_is_the_same_object() -> None:
    request = ModelRequest([ChatMessage("user", "a")])
    assert fitted(request, NOTHING, "m") is request


def test_files_that_the_model_takes_stay() -> None:
    messages = [user(IMAGE, Media(JPEG, "image/png")), CALL, result(IMAGE)]
    assert fit(*messages) == messages


@pytest.mark.parametrize("file", [Media(PDF, name="a.pdf"), Media(WAV, "audio/wav"), Media(b"II*\x00", "image/tiff")])
def test_a_users_file_of_another_kind_is_a_typed_error(file: Media) -> None:
    with pytest.raises(InvalidArgument, match="some-model does not take the file") as raised:
        fit(ChatMessage("system", "s"), user(IMAGE, file))
    error = raised.value
    assert (
        file.label in error.message and file.true_type in error.message and "`media` of its `server`" in error.message
    )
    assert [violation.field for violation in error.field_violations] == ["messages[1].files[1]"]
    assert error.metadata == {"model": "some-model", "media_type": file.true_type, "setting": "media"}


def test_a_model_that_takes_no_files_says_so() -> None:
    with pytest.raises(InvalidArgument, match="it takes no files, not image/png; use another model"):
        fit(user(IMAGE), profile=NOTHING)


def test_a_url_that_the_server_does_not_fetch_is_a_typed_error() -> None:
    at_url = Media.at("https://x.org/a.png", "image/png")
    assert fit(user(at_url)) == [user(at_url)]
    with pytest.raises(InvalidArgument, match="not image/png from a URL; `media_urls`"):
        fit(user(at_url), profile=MediaProfile(media=("image",), media_urls=()))


def test_a_results_file_of_another_kind_is_a_label_and_a_reason() -> None:
    [_, sent] = fit(CALL, result(Media(PDF)), profile=NOTHING)
    label = Media(PDF).label
    assert sent.files == ()
    assert sent.content == (
        f"{label}\n\nThe file {label} is not shown to you: the model some-model does not take application/pdf."
    )
    observed = ChatMessage("user", "Observation: x", metadata={OF_RESULT: True}, files=[IMAGE])
    assert "is not shown to you" in fit(observed, profile=NOTHING)[0].content


def test_files_of_earlier_runs_are_labels_for_another_model() -> None:
    old, new = user(IMAGE, run_id="r1"), user(text="And now?", run_id="r2")
    [sent, query] = fit(old, new, profile=NOTHING)
    assert query == new
    assert sent.files == () and IMAGE.label in sent.content
    with pytest.raises(InvalidArgument):
        fit(old, user(IMAGE, run_id="r2"), profile=NOTHING)


def test_a_refused_file_of_a_result_is_not_sent_again() -> None:
    other = Media(JPEG, "image/jpeg")
    [_, sent] = fit(CALL, result(IMAGE, other), refused={IMAGE.digest})
    assert sent.files == (other,)
    assert "the model's server refused it" in sent.content
    assert fit(user(IMAGE), refused={IMAGE.digest})[0].files == (IMAGE,)


def test_text_files_are_part_of_the_text() -> None:
    [sent] = fit(user(Media(b"a,b", "text/csv", name="a.csv"), Media("ü".encode(), "text/plain")), profile=NOTHING)
    assert sent == ChatMessage("user", "Look.\n\na.csv:\na,b\n\nfile:\nü")


@pytest.mark.parametrize(
    ("limits", "words", "setting"),
    [
        ({"max_message_files": 1}, "at most 1 files", "max_message_files"),
        ({"max_message_bytes": 100}, "at most 100 bytes of files", "max_message_bytes"),
        ({"max_request_files": 1}, "at most 1 files", "max_request_files"),
        ({"max_request_bytes": 100}, "at most 100 bytes of files", "max_request_bytes"),
    ],
)
def test_an_exceeded_limit_is_named(limits: dict[str, int], words: str, setting: str) -> None:
    profile = MediaProfile(media=("image",), **limits)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=words) as raised:
        fit(user(IMAGE, IMAGE), profile=profile)
    assert f"`{setting}` of its `server`" in raised.value.message
    assert raised.value.metadata["setting"] == setting
    assert [violation.field for violation in raised.value.field_violations] == ["messages[0].files[1]"]


def test_of_a_result_with_too_many_files_the_first_are_sent() -> None:
    [_, sent] = fit(CALL, result(IMAGE, IMAGE), profile=MediaProfile(media=("image",), max_message_files=1))
    assert sent.files == (IMAGE,)
    assert "at most 1 files (max_message_files)" in sent.content


def test_newer_results_take_the_place_of_the_oldest_by_halves() -> None:
    profile = MediaProfile(media=("image",), max_request_files=5)
    counts, prefixes = [], []
    for steps in range(1, 12):
        messages = [user(IMAGE), *(message for _ in range(steps) for message in (CALL, result(IMAGE)))]
        sent = fit(*messages, profile=profile)
        shown = [len(message.files) for message in sent]
        assert shown[0] == 1, "the user's file is never left out"
        counts.append(sum(shown))
        prefixes.append(shown)
    assert max(counts) == 5 and counts[-1] >= 3
    same = [old == new[: len(old)] for old, new in pairwise(prefixes)]
    assert same.count(False) == 4, "the beginning of a request changes with every other result at most"


def test_bytes_of_results_are_bounded_together() -> None:
    profile = MediaProfile(media=("image",), max_request_bytes=3 * len(PNG))
    messages = [message for _ in range(9) for message in (CALL, result(IMAGE))]
    sent = fit(*messages, profile=profile)
    assert 1 <= sum(len(message.files) for message in sent) <= 3
    assert sent[-1].files == (IMAGE,)


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_other_messages_have_labels_for_their_files(role: Any) -> None:
    sent = fit(ChatMessage(role, "I drew it.", files=[IMAGE]), user())[0]
    assert sent.files == ()
    assert sent.content.endswith(
        f"The file {IMAGE.label} is not shown to you: a message of the role {role} has no files."
    )


def test_an_empty_file_is_a_typed_error_or_a_label() -> None:
    with pytest.raises(InvalidArgument, match=r"\[image/png, 0 bytes\] is empty"):
        fit(user(Media(b"", "image/png")))
    assert "is not shown to you: it is empty" in fit(CALL, result(Media(b"", "image/png")))[1].content
