"""Pieces of an answer in a chat with a role: those that come, and the rest if some are lost."""

from __future__ import annotations

import pytest

from archon_services.cli.chat.role import Pieces


@pytest.mark.parametrize(
    ("pieces", "answer", "written"),
    [
        ([(0, "It is "), (6, "noon.")], "It is noon.", "It is noon."),
        ([(6, "noon.")], "It is noon.", ""),
        ([(0, "It "), (6, "noon.")], "It is noon.", "It is noon."),
        ([(0, "Ünd "), (5, "so.")], "Ünd so.", "Ünd so."),
        ([(0, "I look. "), (20, "noon")], "It is noon.", "I look. \nIt is noon."),
        ([(3, "is "), (0, "It is "), (6, "noon.")], "It is noon.", "It is noon."),
    ],
    ids=["all", "the first is lost", "one in between is lost", "offsets are bytes", "another text", "another attempt"],
)
def test_what_is_written_is_whole_or_nothing(pieces: list[tuple[int, str]], answer: str, written: str) -> None:
    found: list[str] = []
    taken = Pieces(found.append)
    for offset, text in pieces:
        taken.add(offset, text)
    taken.finish(answer)
    assert "".join(found) == written
