"""Files of this machine for a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument, MessageTooLarge, NotFound
from archon_mesh.core.media import Media
from archon_mesh.llm import load_file
from tests.fixtures.media import JPEG, PNG


def test_a_file_is_loaded_with_its_name_and_type(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(JPEG)
    assert load_file(path) == Media(JPEG, "image/jpeg", name="a.png")
    assert load_file(str(path), "image/x-own").media_type == "image/x-own"


def test_a_file_that_cannot_be_loaded_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no file .*none\.png"):
        load_file(tmp_path / "none.png")
    with pytest.raises(InvalidArgument, match="cannot read"):
        load_file(tmp_path)
    (tmp_path / "empty.png").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="is empty"):
        load_file(tmp_path / "empty.png")
    (tmp_path / "large.png").write_bytes(PNG)
    with pytest.raises(MessageTooLarge, match="a file may have 10 bytes"):
        load_file(tmp_path / "large.png", max_bytes=10)
