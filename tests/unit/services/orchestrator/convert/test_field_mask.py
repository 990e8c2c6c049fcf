"""Field masks: what an edit changes, clears and refuses."""

from __future__ import annotations

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.errors import InvalidArgument
from archon_services.orchestrator.convert.field_mask import MAX_PATHS, checked_paths, masked

FIELDS = ("times", "run", "policies", "note")


def present() -> pb.Schedule:
    schedule = pb.Schedule(name="s", note="n")
    schedule.times.cron, schedule.times.time_zone = "0 2 * * *", "Europe/Berlin"
    schedule.times.start.seconds = 5
    schedule.run.roles.extend(["a", "b"])
    schedule.run.metadata.update({"k": "v"})
    return schedule


def changed(given: pb.Schedule, *paths: str) -> pb.Schedule:
    return masked(present(), given, checked_paths(FieldMask(paths=paths), given, FIELDS))


def test_a_named_field_that_is_not_set_is_cleared() -> None:
    assert changed(pb.Schedule(), "note").note == ""
    cleared = changed(pb.Schedule(), "times.time_zone", "times.start", "run.roles", "run.metadata")
    assert cleared.times.cron == "0 2 * * *" and cleared.times.time_zone == ""
    assert not cleared.times.HasField("start")
    assert not cleared.run.roles and not cleared.run.metadata
    assert not changed(pb.Schedule(), "times").HasField("times")


def test_lists_and_maps_are_replaced_and_others_stay() -> None:
    given = pb.Schedule(note="other")
    given.run.roles.append("c")
    given.run.metadata["x"] = "y"
    after = changed(given, "run.roles", "run.metadata")
    assert (list(after.run.roles), dict(after.run.metadata), after.note) == (["c"], {"x": "y"}, "n")


def test_a_path_within_another_one_changes_no_more() -> None:
    given = pb.Schedule()
    given.times.cron = "* * * * *"
    assert changed(given, "times", "times.cron").times == given.times
    assert changed(given, "times.cron", "times").times == given.times


def test_no_mask_names_what_is_set_and_an_asterisk_everything() -> None:
    given = pb.Schedule(note="other", paused=True, runs=9)
    assert checked_paths(FieldMask(), given, FIELDS) == ["note"]
    assert checked_paths(FieldMask(paths=["*"]), given, FIELDS) == list(FIELDS)
    replaced = changed(given, "*")
    assert (replaced.note, replaced.HasField("times"), replaced.paused) == ("other", False, False)


@pytest.mark.parametrize(
    "path",
    ["", "paused", "runs", "etag", "colour", "times.colour", "times.", ".times", "times..cron", "run.metadata.k",
     "run.goal.text", "note.x", "Note", "timesX", "times*", "times.*"],
)  # fmt: skip
def test_a_path_that_cannot_be_changed_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        checked_paths(FieldMask(paths=["note", path]), pb.Schedule(), FIELDS)
    assert refused.value.field_violations[0].field == "update_mask"


def test_a_mask_is_bounded() -> None:
    with pytest.raises(InvalidArgument):
        checked_paths(FieldMask(paths=["note"] * (MAX_PATHS + 1)), pb.Schedule(), FIELDS)
