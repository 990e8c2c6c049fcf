"""A log line as JSON and as text."""

from __future__ import annotations

import json
import re

import pytest

from archon.telemetry.logs.render import json_line, text_line
from tests.unit.sdk.telemetry.logs.records import Terminal, logged

BREAKS = "a\nb\r\x0b\x0c\x1b[2J\x1c\x85\u2028\u2029\x00c"


def test_no_value_breaks_a_line_of_json() -> None:
    with logged() as lines:
        lines.log.info("%s", BREAKS, extra={"own": BREAKS, "key\n": 1})
    assert len(lines.text.splitlines()) == 1
    assert lines.text.rstrip("\n").isprintable()
    assert lines.fields["message"] == lines.fields["own"] == BREAKS


def test_half_of_a_surrogate_pair_can_be_encoded() -> None:
    line = json_line({"message": "x\ud83d"})
    assert json.loads(line.encode()) == {"message": "x\ud83d"}
    assert text_line({"message": "x\ud83d"}).encode()


def test_other_alphabets_are_written_as_they_are() -> None:
    assert json_line({"message": "Größe 大"}) == '{"message": "Größe 大"}'


def test_further_lines_of_a_text_are_indented() -> None:
    forged = "done\n14:02:11.123 error   forged"
    first, second = text_line({"level": "info", "message": forged}).split("\n")
    assert first.endswith("done")
    assert second == "    14:02:11.123 error   forged"


def test_text_has_columns_of_time_level_and_process() -> None:
    fields = {"time": "2026-11-23T14:02:11.123456Z", "level": "info", "message": "m", "run_id": "01a206428344aaaa"}
    line = text_line(fields, process="designer-1")
    assert line[8:12] == ".123"
    assert line[12:] == " info    designer-1 m run=01a206428344"
    assert "run=" not in text_line(fields, shows_run=False)


def test_text_wraps_at_words_to_the_width_of_a_terminal() -> None:
    fields = {"time": "x" * 12, "level": "info", "message": "word " * 20 + "\n  second", "queue": 3}
    lines = text_line(fields, process="designer-1", columns=60, colours=True).split("\n")
    plain_lines = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert max(map(len, plain_lines)) <= 60
    assert plain_lines[0].startswith("x" * 12 + " info    designer-1 word word")
    assert {line[:4] for line in plain_lines[1:]} == {"    "}
    assert " ".join(" ".join(plain_lines)[32:].split()) == "word " * 20 + "second queue=3"


def test_a_time_or_level_with_newlines_stays_on_its_line() -> None:
    assert "\n" not in text_line({"time": "a\nb", "level": "c\nd", "message": "m", "e\nf": "g\nh"})


def test_a_stack_is_indented_below_its_line() -> None:
    error = {"type": "ValueError", "message": "x", "stack": "Traceback:\n  File\nValueError: x"}
    text = text_line({"level": "error", "message": "failed", "error": error})
    assert text.split("\n")[1:] == ["    Traceback:", "      File", "    ValueError: x"]


def test_own_fields_are_shown_but_those_of_calls_are_not() -> None:
    assert text_line({"message": "m", "queue": 3}).endswith("m queue=3")
    assert text_line({"message": "m", "outcome": "ok", "seconds": 0.5}).endswith("m")
    assert text_line({"message": "m", "seconds": 0.5}).endswith("m seconds=0.5")


@pytest.mark.parametrize("hostile", [{"message": 5}, {"time": {}}, {"level": None, "error": "x"}, {"run_id": 7}, {}])
def test_fields_of_any_type_are_rendered(hostile: dict[str, object]) -> None:
    assert text_line(hostile) is not None


def test_a_terminal_gets_colours_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with logged("auto", Terminal()) as lines:
        lines.log.warning("m\x1b[2J")
    assert "\x1b[33mwarning" in lines.text
    assert "m[2J" in lines.text, "a message has no control of the terminal"
    monkeypatch.setenv("NO_COLOR", "1")
    with logged("auto", Terminal()) as lines:
        lines.log.warning("m")
    assert "\x1b" not in lines.text
    assert " warning m\n" in lines.text


def test_the_format_can_be_chosen_for_either_stream() -> None:
    with logged("text") as lines:
        lines.log.info("m")
    assert lines.text.endswith(" info    m\n")
    with logged("json", Terminal()) as lines:
        lines.log.info("m")
    assert lines.fields["message"] == "m"
