"""Large results of tools are cut."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools import output_limit
from archon_mesh.tools.image import Image
from archon_mesh.tools.output_limit import MAX_MEDIA_BYTES, MAX_OUTPUT_BYTES, limited


@pytest.mark.parametrize("content", ["", "ü" * 100, {"a": [1, None]}, [], None, 3, Image(b"12"), [Image(b"1"), "x"]])
def test_content_within_the_limit_is_unchanged(content: Any) -> None:
    assert limited(content, None)[0] == content


def test_long_text_is_cut_with_a_note() -> None:
    kept, size = limited("a" * 50_000_000, None)
    assert (len(kept) < MAX_OUTPUT_BYTES + 200, size) == (True, MAX_OUTPUT_BYTES)
    assert kept.startswith("aaa")
    assert kept.endswith("\n[49,737,856 of 50,000,000 characters left out: the limit of the tool is 262,144 bytes]")


def test_text_is_cut_between_characters() -> None:
    kept, _ = limited("ü" * 10, 5)
    assert kept == "üü\n[8 of 10 characters left out: the limit of the tool is 5 bytes]"


def test_large_json_becomes_text_that_is_cut() -> None:
    kept, _ = limited({"rows": ["x" * 100] * 10_000}, 50)
    assert kept.startswith('{"rows": ["xxx')
    assert "characters left out" in kept
    assert len(kept) < 200


def test_value_that_is_not_json_becomes_its_json_form() -> None:
    assert limited({"day": date(2026, 1, 2)}, None)[0] == {"day": "2026-01-02"}
    assert limited((1, 2), None)[0] == (1, 2)


def test_value_without_a_json_form_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for content in (circle, {(1, 2): 3}):
        with pytest.raises(InvalidArgument, match="the result is not a JSON value"):
            limited(content, None)


def test_images_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = Image(b"x" * 10), Image(b"x" * 50)
    assert limited([small, large, small], 200)[0] == [small, large, small]
    note = "[image/png, 50 bytes] left out: the limit of the tool is 20 bytes"
    monkeypatch.setattr(output_limit, "MAX_MEDIA_BYTES", 20)
    assert limited(large, None)[0] == note
    assert limited([small, large, small], None)[0] == [small, note, small]
    assert MAX_MEDIA_BYTES == 8 * 1024 * 1024


def test_texts_beside_images_are_bounded_together() -> None:
    image = Image(b"x")
    kept, _ = limited([image, *["y" * 100_000] * 100], None)
    assert kept[0] is image
    assert len(kept) == 2
    assert len(kept[1]) < MAX_OUTPUT_BYTES + 200
