"""Files: what they are, how they are named where they cannot be shown, and how they are stored."""

from __future__ import annotations

import json

import pytest

from archon.errors import InvalidArgument
from archon_mesh.core.media import Media, files_of, media_from_json, media_to_json
from archon_mesh.core.media_types import canonical_type, sniffed_type, type_of_file
from archon_mesh.core.messages import ChatMessage
from archon_mesh.tools import Audio, EmbeddedResource, Image
from tests.fixtures.media import GIF, JPEG, MP3, PDF, PNG, WAV, WEBP, in_base64


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
        (PDF, "application/pdf"),
        (WAV, "audio/wav"),
        (MP3, "audio/mpeg"),
        (b"BM\x1a\x00\x00\x00", "image/bmp"),
        (b"BMW is a make of car", None),
        (b"ID3 tags are at the beginning", None),
        (b"RIFF\x24\x00\x00\x00AVI ", None),
        (b"", None),
    ],
)
def test_the_first_bytes_of_a_file_tell_its_type(data: bytes, media_type: str | None) -> None:
    assert sniffed_type(data) == media_type


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("a.png", JPEG, "image/jpeg"),
        ("a", PNG, "image/png"),
        ("a.csv", b"a,b", "text/csv"),
        ("notes", "ü".encode(), "text/plain"),
        ("drawing.svg", b"<svg/>", "image/svg+xml"),
        ("a.docx", b"PK\x03\x04\xff", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.txt", b"\xff\xfe", "application/octet-stream"),
        ("a.bin", b"\x00\x01", "application/octet-stream"),
    ],
)
def test_a_file_is_text_if_it_is_utf_8_else_what_its_name_says(name: str, data: bytes, media_type: str) -> None:
    assert type_of_file(name, data) == media_type


def test_media_types_are_spelled_as_they_are_registered() -> None:
    assert canonical_type("IMAGE/JPG; q=1") == "image/jpeg"
    assert canonical_type("audio/x-wav") == "audio/wav"
    assert canonical_type(" ") == "application/octet-stream"


@pytest.mark.parametrize(
    ("file", "media_type", "kind"),
    [
        (Media(JPEG, "image/png"), "image/jpeg", "image"),
        (Media(b"?", "image/jpg"), "image/jpeg", "image"),
        (Media(MP3, "audio/mp3"), "audio/mpeg", "audio"),
        (Media(PDF), "application/pdf", "file"),
        (Media(b"<svg/>", "image/svg+xml"), "image/svg+xml", "text"),
        (Media(b"{}", "application/json"), "application/json", "text"),
        (Media.at("https://example.com/a", "image/webp"), "image/webp", "image"),
    ],
)
def test_the_bytes_of_a_file_count_before_its_declared_type(file: Media, media_type: str, kind: str) -> None:
    assert (file.true_type, file.kind) == (media_type, kind)


@pytest.mark.parametrize(
    ("file", "label"),
    [
        (Media(b"123", "image/png"), "[image/png, 3 bytes]"),
        (Media(b"123", "image/png", name="a.png"), "[a.png, image/png, 3 bytes]"),
        (Media(b"123", "image/png", name="a\nb]" + "x" * 300), f"[a b]{'x' * 196}, image/png, 3 bytes]"),
        (Media.at("https://x.org/a.png", "image/png"), "[file, image/png: https://x.org/a.png]"),
        (Media.at("https://x.org/a", name="a"), "[a: https://x.org/a]"),
    ],
)
def test_a_label_names_a_file_in_one_line(file: Media, label: str) -> None:
    assert file.label == label


def test_the_type_of_a_url_follows_from_its_path() -> None:
    assert Media.at("https://x.org/a.PNG?size=1").media_type == "image/png"
    assert Media.at("https://x.org/a.png", "image/webp").media_type == "image/webp"
    assert Media.at("https://x.org/").media_type == "application/octet-stream"


def test_a_data_url_is_read() -> None:
    file = Media.at(f"data:image/png;base64,{in_base64(PNG)}", name="a.png")
    assert (file.data, file.media_type, file.url, file.name) == (PNG, "image/png", "", "a.png")
    assert Media.at("data:,a%20b") == Media(b"a b", "text/plain")
    assert Media.at("data:image/png;base64,", "image/gif").media_type == "image/gif"


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://x/a.png", "file:///etc/passwd", "a.png", "http://", "data:x", "data:;base64,?", "https://x/\n"),
        *("https://x/a b", f"https://x/{'a' * 8_000}"),
    ],
)
def test_a_url_that_is_neither_of_http_nor_data_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"invalid (data )?URL of a file"):
        Media.at(url)


@pytest.mark.parametrize(
    "file", [Media(PNG, "image/png", name="a.png"), Media.at("https://x.org/a", "image/png"), Media(b"")]
)
def test_a_file_is_stored_as_json(file: Media) -> None:
    assert media_from_json(json.loads(json.dumps(media_to_json(file)))) == file


def test_the_bytes_of_a_file_are_in_no_log() -> None:
    message = ChatMessage("user", "Look.", files=[Media(b"4711", "image/png"), Image(b"4711")])
    assert "4711" not in repr(message)


def test_messages_take_lists_of_files_and_nothing_else() -> None:
    assert ChatMessage("user", "a", files=[Media(PNG)]) == ChatMessage("user", "a", files=(Media(PNG),))
    for files in (["a.png"], "a.png", Media(PNG)):
        with pytest.raises(InvalidArgument, match="load_file"):
            ChatMessage("user", "a", files=files)  # type: ignore[arg-type]


def test_a_description_has_each_label_once() -> None:
    files = [Media(b"1", "image/png"), Media(b"12", "image/png")]
    message = ChatMessage("tool", "[image/png, 1 bytes]", files=files)
    assert message.described == "[image/png, 1 bytes]\n[image/png, 2 bytes]"
    assert message.without_files() == ChatMessage("tool", message.described)
    assert ChatMessage("user", files=files[:1]).described == "[image/png, 1 bytes]"


def test_the_files_of_a_result_are_those_that_are_no_text() -> None:
    content = [
        "a",
        Image(PNG),
        Audio(WAV),
        EmbeddedResource(b"text", uri="note://1"),
        EmbeddedResource(PDF, "application/pdf", "r://2"),
    ]
    assert files_of(content) == (
        Media(PNG, "image/png"),
        Media(WAV, "audio/wav"),
        Media(PDF, "application/pdf", name="r://2"),
    )
    assert files_of("text") == ()
