"""The waterfall as SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from archon_services.reports.waterfall import svg
from archon_services.reports.waterfall.svg import WIDTH, waterfall_svg
from tests.unit.services.reports.waterfall.journals import Journal, delegation, pipeline

NAMESPACE = "{http://www.w3.org/2000/svg}"
WIDTHS = {"W": 0.989, "役": 1.0, "a": 0.613}
"""Advances in wide fonts, as parts of the size of the font."""

EVIL = "a\"b<script>alert(1)</script>&'\x00\x1b\ufffe"


def parsed(journal: Journal, now: float = 0.0) -> ET.Element:
    return ET.fromstring(waterfall_svg(journal.waterfall(now)))


def bars(picture: ET.Element, kind: str) -> list[tuple[float, float]]:
    """Returns place and width of the bars of a kind that have titles."""
    rects = [rect for rect in picture.iter(f"{NAMESPACE}rect") if rect.get("class") == kind and len(rect)]
    return [(float(rect.get("x", "")), float(rect.get("width", ""))) for rect in rects]


def test_svg_has_a_bar_with_a_title_for_each_piece_of_time() -> None:
    picture = parsed(pipeline())
    titles = [title.text or "" for title in picture.iter(f"{NAMESPACE}title")]
    assert titles[0] == "Waterfall of the run run-1"
    assert any(title == "model 2.50 s: model offline, 2.50 s, 100 tokens in, 20 out, $0.0003" for title in titles)
    assert (310.0, 60.0) in bars(picture, "queue")  # the first of ten seconds
    assert (310.0, 360.0) in bars(picture, "waiting")  # the first six


def test_bars_lie_within_their_column() -> None:
    journal = delegation()
    journal.call("lead", 9.99999, 10)
    for kind in ("waiting", "queue", "model", "tool", "delegation", "agent"):
        for x, width in bars(parsed(journal), kind):
            assert x >= 310 and x + width <= 910.05 and width >= 1


def test_names_and_reasons_are_escaped() -> None:
    journal = Journal(EVIL)
    journal.dispatched(0, EVIL)
    journal.call(EVIL, 0, 1, target=EVIL)
    journal.lost(2, EVIL)
    journal.events[-1].lost.failure.message = EVIL
    journal.claimed(2, EVIL)
    picture = parsed(journal, 3)
    assert not list(picture.iter(f"{NAMESPACE}script"))
    assert any('a"b<script>alert(1)</script>&' in (text.text or "") for text in picture.iter(f"{NAMESPACE}text"))


def test_svg_is_self_contained_and_has_a_dark_scheme() -> None:
    text = waterfall_svg(delegation().waterfall())
    assert "@media (prefers-color-scheme: dark)" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert not any(word in text for word in ("<script", "<image", "href", "@import", "url(", "onload"))


def test_everything_fits_into_the_picture() -> None:
    journal = pipeline()
    for number in range(30):
        journal.claimed(5, "orchestrator", number)
    picture = parsed(journal)
    height = float(picture.get("height", ""))
    for element in picture.iter():
        assert float(element.get("y", "0")) <= height and float(element.get("x", "0")) <= WIDTH


def test_rows_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "MAX_ROWS", 2)
    assert "More than 2 rows; the JSON has all spans." in waterfall_svg(pipeline().waterfall())


def test_run_without_duration_is_drawn() -> None:
    assert bars(parsed(Journal("cook")), "model") == []


@pytest.mark.parametrize("char", ["W", "役", "a"])
def test_a_long_name_ends_before_the_bars(char: str) -> None:
    name = char * 60
    journal = Journal(name)
    journal.dispatched(0, name)
    journal.result(1, name)
    texts = [text.text or "" for text in parsed(journal).iter(f"{NAMESPACE}text")]
    labels = [text for text in texts if char * 5 in text]
    assert labels and all(label.endswith("…") for label in labels)
    assert all(13 * WIDTHS[char] * len(label) <= 290 for label in labels)
    assert all(len(label) >= 15 for label in labels)
