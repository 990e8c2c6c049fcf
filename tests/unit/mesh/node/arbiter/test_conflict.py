"""The answers in conflict: which say the same, which one a choice names, and the checkpoint of an arbiter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon_mesh.node.arbiter.conflict import Decided, Position, Progress, chosen, groups_of, positions_of


def positions(*texts: str, by: str = "") -> list[Position]:
    return positions_of([(f"s-{number}", "worker", text, ()) for number, text in enumerate(texts, 1)], by)


def steps(groups: list[list[Position]]) -> list[list[str]]:
    return [[each.step_id for each in group] for group in groups]


def test_numbers_within_five_per_cent_are_no_conflict() -> None:
    assert steps(groups_of(positions("100", "105", "Yes.", "yes"))) == [["s-1", "s-2"], ["s-3", "s-4"]]


@pytest.mark.parametrize(
    ("texts", "by", "said"),
    [
        (('{"answer": "12", "confidence": 0.5}', '{"answer": "14"}'), "", ["12", "14"]),
        (('{"answer": "12"}', "14"), "", ['{"answer": "12"}', "14"]),
        (('{"answer": "1", "sum": 3}', '{"answer": "2", "sum": 3}'), "sum", ["3", "3"]),
    ],
)
def test_a_field_of_json_answers_is_compared(texts: tuple[str, ...], by: str, said: list[str]) -> None:
    assert [each.said for each in positions(*texts, by=by)] == said


@pytest.mark.parametrize(
    ("choice", "step"),
    [("s-2", "s-2"), (" `S-2` ", "s-2"), ("14.2", "s-2"), ("12", "s-1"), ("13", ""), ("", ""), ("s-9", "")],
)
def test_a_choice_names_a_step_or_its_answer(choice: str, step: str) -> None:
    position = chosen(choice, positions("12", "14"))
    assert (position.step_id if position is not None else "") == step


def test_an_unchanged_answer_is_chosen_before_a_changed_one() -> None:
    first, second = positions("12", "14")
    position = chosen("14", [replace(first, now="14"), second])
    assert position is not None
    assert position.step_id == "s-2"


def test_a_checkpoint_has_what_was_found_out() -> None:
    asked = [replace(each, method="counted", check="PASS") for each in positions("12", "14")]
    decided = Decided("model", "s-2", "14", "it is right")
    progress = replace(Progress({"method": "no"}).after(asked), decided=decided)
    again = Progress.from_bytes(progress.to_bytes())
    assert again == progress
    assert again.applied(positions("12", "14")) == asked


@pytest.mark.parametrize("checkpoint", [b"", b"\xff", b"{}", b'{"tried": [], "known": {}, "decided": null}', b"[1]"])
def test_another_checkpoint_is_no_progress(checkpoint: bytes) -> None:
    assert Progress.from_bytes(checkpoint) == Progress()


@pytest.mark.parametrize("decided", ['["a"]', "3", '{"a": 1}'])
def test_a_checkpoint_with_a_broken_decision_is_no_progress(decided: str) -> None:
    assert Progress.from_bytes(f'{{"tried": {{}}, "known": {{}}, "decided": {decided}}}'.encode()) == Progress()
