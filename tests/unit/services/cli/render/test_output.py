"""Tables, ages and lines."""

from __future__ import annotations

import pytest

from archon_services.cli.render import output
from archon_services.cli.run_ids import short_length
from archon_services.reports.texts import age, axis_label, one_line

HEADERS = ("run", "age", "goal")
ROWS = [("01a206428344", "2 m", "Build a small app that keeps track of things and never forgets any of them")]


def table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    """The lines of a table on a terminal of this width, without colours."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_table(HEADERS, ROWS, right=(1,), folded=(2,))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_folded_column_wraps_at_words_to_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = table(capsys, monkeypatch, 50)
    assert max(map(len, lines)) <= 50
    assert lines[1].split()[:3] == ["01a206428344", "2", "m"]
    words = " ".join(line[19:].strip() for line in lines[1:])
    assert words == ROWS[0][2]


def test_other_columns_are_never_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("01a206428344" in line for line in table(capsys, monkeypatch, 20))


def test_without_a_terminal_rows_are_single_lines(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(HEADERS, ROWS, right=(1,), folded=(2,))
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0 s"), (59, "59 s"), (60, "1 m"), (7_199, "1 h"), (90_000, "1 d"), (864_000, "10 d")]
)
def test_an_age_has_one_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_a_long_text_is_one_shortened_line_without_control_characters() -> None:
    assert one_line("a\n\tb \x1b[31mc " + "d" * 50, 12) == "a b [31mc d…"


def test_ids_are_as_short_as_they_can_be_told_apart() -> None:
    assert short_length(["a" * 32, "b" * 32]) == 12
    assert short_length(["a" * 32, "a" * 20 + "b" * 12, "a" * 32]) == 21


def test_the_labels_of_a_short_axis_differ() -> None:
    total = 0.03
    assert [axis_label(total * number / 4, total) for number in range(5)] == [
        *("0 s", "7.5 ms", "15 ms", "22.5 ms", "30 ms")
    ]
    assert [axis_label(10 * number / 4, 10) for number in range(3)] == ["0 s", "2.50 s", "5.00 s"]
