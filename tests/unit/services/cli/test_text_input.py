"""Goals of text and files."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from archon.submission import content
from archon.types import Part
from archon.wire import CONTENT_ROOM, MAX_CHECKED_BYTES
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.text_input import read_goal
from tests.fixtures.media import JPEG, PDF, PNG

HINT = "Pass it."


def written(folder: Path, **files: bytes) -> list[Path]:
    paths = [folder / name.replace("_", ".") for name in files]
    for path, data in zip(paths, files.values(), strict=True):
        path.write_bytes(data)
    return paths


def test_files_follow_the_text_with_their_types(tmp_path: Path) -> None:
    files = written(tmp_path, a_png=PNG, photo_png=JPEG, r_pdf=PDF, notes_md=b"# Notes", drawing_svg=b"<svg/>")
    assert read_goal("Look.", files, "goal", hint=HINT) == [
        Part(text="Look."),
        Part(raw=PNG, filename="a.png", media_type="image/png"),
        Part(raw=JPEG, filename="photo.png", media_type="image/jpeg"),
        Part(raw=PDF, filename="r.pdf", media_type="application/pdf"),
        Part(text="# Notes", filename="notes.md"),
        Part(text="<svg/>", filename="drawing.svg"),
    ]


def test_a_text_file_alone_is_the_goal(tmp_path: Path) -> None:
    assert read_goal("", written(tmp_path, brief_md=b"Do it."), "goal", hint=HINT) == "Do it."
    image = read_goal("", written(tmp_path, a_png=PNG), "goal", hint=HINT)
    assert image == [Part(raw=PNG, filename="a.png", media_type="image/png")]


def test_the_text_may_come_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Look.")))
    assert read_goal("-", written(tmp_path, a_png=PNG), "goal", hint=HINT)[0] == Part(text="Look.")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("none.png", None, "cannot read .*none.png: No such file"),
        ("empty.png", b"", "missing goal: .*empty.png is empty"),
        ("blank.txt", b" \n", "missing goal: .*blank.txt is empty"),
        ("a.bin", b"\x00\xff", "a.bin is not UTF-8 text, nor of a type that its name or its first bytes tell"),
        ("a.txt", b"\xff\xfe", "a.txt is not UTF-8 text"),
        (
            "large.png",
            PNG + bytes(MAX_CHECKED_BYTES),
            "large.png is too large: 4,190,208 bytes are left of what a goal",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_a_mistake_of_usage(
    name: str, data: bytes | None, words: str, tmp_path: Path
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(CliError, match=words) as raised:
        read_goal("", [tmp_path / name], "goal", hint=HINT)
    assert raised.value.code == USAGE


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="Is a directory"):
        read_goal("Look.", [tmp_path], "goal", hint=HINT)


def test_files_are_bounded_together(tmp_path: Path) -> None:
    half = (MAX_CHECKED_BYTES - CONTENT_ROOM) // 2
    files = written(tmp_path, a_png=PNG + bytes(half - 200), b_png=PNG + bytes(half - 200))
    content(read_goal("", files, "goal", hint=HINT), "the goal")
    with pytest.raises(CliError, match=r"b\.png is too large"):
        read_goal("x" * 1_000, files, "goal", hint=HINT)
    with pytest.raises(CliError, match="/dev/zero is too large"):
        read_goal("Look.", [Path("/dev/zero")], "goal", hint=HINT)


def test_without_files_a_goal_is_its_text() -> None:
    assert read_goal("Do it.", [], "goal", hint=HINT) == "Do it."
    with pytest.raises(CliError, match="missing goal"):
        read_goal(" ", [], "goal", hint=HINT)
