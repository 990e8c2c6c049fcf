"""The waterfall as text at 80 and 140 columns."""

from __future__ import annotations

import pytest

from archon_services.reports.waterfall import text
from archon_services.reports.waterfall.spans import Waterfall
from archon_services.reports.waterfall.text import MIN_WIDTH, plain, waterfall_lines
from tests.unit.services.reports.waterfall.journals import FAILED, Journal, committee, delegation, pipeline

PIPELINE_80 = """\
run run-1  completed  pipeline  10.0 s  100 tokens in, 20 out  $0.0003

                   0 s              5.00 s     10.0 s    time   in  out     cost
* critical path    :::################=###########+==  10.0 s
  cook             ==########====                      4.00 s  100   20  $0.0003
    model offline    ########                          2.50 s  100   20  $0.0003
* baker            :::################=                5.00 s
*   model offline     ################                 4.50 s
* waiter           ....................###########+==  4.00 s
*   model offline                      ###########     3.00 s
*   tool bell                                     +    0.50 s

. waiting  : queue  # model  + tool  > delegation  = agent
* on the critical path  ! event

time        critical path   share  all tasks
waiting            0.00 s    0.0%     6.00 s
queue              1.00 s   10.0%     1.00 s
model              7.50 s   75.0%     10.0 s
tool               0.50 s    5.0%     0.50 s
agent              1.00 s   10.0%     2.50 s"""

DELEGATION_140 = """\
* lead                 ######################>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>###########===========  10.0 s
*   model offline      ######################                                                                                         2.00 s
*   to cook                                  >>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>                        6.00 s
*     cook                                   :::::::::::###########################################===========                        5.00 s
*       model offline                                   ###########################################                                   4.00 s
*   model offline                                                                                             ###########             1.00 s"""


COMMITTEE_80 = """\
run run-1  completed  agent  8.00 s

                      0 s                      4.00 s             8.00 s    time
* critical path       ==================================================  8.00 s
  cook (pick-cook)    =========================                           4.00 s
* baker (pick-baker)  ==================================================  8.00 s
  decision pick       ..................................................  0.00 s
    the answer of pick-baker has 9 of 10; in conflict: pick-cook says something…
"""


def lines(drawn: Waterfall, width: int = 80) -> list[str]:
    return [plain(line) for line in waterfall_lines(drawn, width)]


def test_pipeline_at_80_columns() -> None:
    assert "\n".join(lines(pipeline().waterfall())) == PIPELINE_80


def test_delegation_at_140_columns() -> None:
    assert DELEGATION_140 in "\n".join(lines(delegation().waterfall(), 140))


@pytest.mark.parametrize("width", [1, 60, 80, 140, 400, 10_000])
def test_no_line_is_wider_than_the_width(width: int) -> None:
    journal = pipeline()
    journal.events[-1].run_state.failure.message = "a long reason " * 50
    journal.call("waiter", 6, 7, target="a-long-name-of-a-model-" * 20, cost_micro_usd=12_345_678, input_tokens=10**9)
    journal.claimed(3, "orchestrator-2" * 50)
    journal.events[-3].result.usage.model_calls = 9
    width_kept = min(max(width, MIN_WIDTH), text.MAX_WIDTH)
    assert all(len(line) <= width_kept for line in lines(journal.waterfall(), width))


def test_marks_are_on_a_row_and_below_the_summary() -> None:
    journal = delegation()
    journal.claimed(5, "orchestrator-2")
    journal.events.insert(-2, journal.events.pop())
    printed = lines(journal.waterfall())
    (row,) = [line for line in printed if line.startswith("  events")]
    assert row.count("!") == 1
    assert printed[-1] == "! 5.00 s  taken over by orchestrator-2 (epoch 2)"


def test_failures_follow_their_rows() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.lost(1, "cook")
    journal.dispatched(1, "cook", 2)
    journal.result(2, "cook", 2, FAILED, "burnt")
    journal.ended(2, FAILED, "cook failed")
    printed = lines(journal.waterfall())
    assert printed[1] == "failure: cook failed"
    places = [
        next(n for n, line in enumerate(printed) if piece in line) for piece in ("cook (lost)", "cook #2 (failed)")
    ]
    assert [printed[place + 1].strip() for place in places] == ["its session ended", "burnt"]


def test_task_that_never_ran_says_what_it_waits_for() -> None:
    journal = Journal("cook", "waiter", edges=[("cook", "waiter")])
    journal.dispatched(0, "cook")
    printed = lines(journal.waterfall(4))
    (place,) = [number for number, line in enumerate(printed) if "waiter waits" in line]
    assert printed[place + 1].strip() == "waits for cook"


def test_control_characters_of_names_are_removed() -> None:
    journal = delegation()
    journal.call("lead", 9, 9.5, target="evil\x1b[2J\x07\u009bname\nline")
    journal.refused(9, "lead", "x\x1b]0;title", "no\x1b[31m")
    journal.events.insert(-3, journal.events.pop())
    printed = "\n".join(lines(journal.waterfall(), 140))
    assert not any((ord(character) < 32 and character != "\n") or 127 <= ord(character) < 160 for character in printed)
    assert "model evil[2Jname line" in printed


def test_short_spans_have_a_cell() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.call("cook", 5, 5.0001)
    journal.result(1000, "cook")
    journal.ended(1000)
    (row,) = [line for line in lines(journal.waterfall()) if "model offline" in line]
    assert row.count("#") == 1


def test_rows_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_ROWS", 3)
    assert "4 more rows; --format json has all spans" in lines(pipeline().waterfall())


def test_tokens_are_marked_if_estimated_and_shortened() -> None:
    journal = Journal("cook")
    journal.dispatched(0, "cook")
    journal.result(1, "cook", input_tokens=123_456, output_tokens=2_345_678, estimated=True)
    journal.ended(1)
    printed = lines(journal.waterfall())
    assert "~123,456 tokens in, ~2,345,678 out" in printed[0]
    assert any(line.startswith("* cook") and line.endswith("~123k  ~2.3M") for line in printed)


def test_a_decision_at_80_columns() -> None:
    assert "\n".join(lines(committee().waterfall())).startswith(COMMITTEE_80)
