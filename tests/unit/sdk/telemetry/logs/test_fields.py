"""The fields of a log line."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from archon import context
from archon.telemetry.logs.fields import MAX_EXTRA, MAX_STACK, MAX_TEXT
from archon_mesh.tools.credentials import Secret
from tests.unit.sdk.telemetry.logs.records import logged

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALL = context.CallContext(
    traceparent=f"00-{TRACE}-{SPAN}-01", run_id="run1", task_id="run1.2", attempt=3, role="designer"
)


def test_each_line_has_time_level_message_and_process() -> None:
    with logged() as lines:
        lines.log.info("serving on %s", "127.0.0.1:1")
    fields = lines.fields
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", fields["time"])
    assert abs(datetime.fromisoformat(fields.pop("time")) - datetime.now(UTC)) < timedelta(minutes=5)
    assert fields == {
        "level": "info",
        "message": "serving on 127.0.0.1:1",
        "logger": "test.logger",
        "service": "designer",
        "instance_id": "designer-1a2b",
    }


def test_a_field_of_any_name_leaves_the_message() -> None:
    with logged() as lines:
        lines.log.info("serving on %s", 1, extra={"event": "start", "time": "never"}, stack_info=True)
    fields = lines.fields
    assert fields["message"].startswith("serving on 1\nStack (most recent call last):")
    assert fields["event"] == "start"
    assert fields["time"] != "never"


def test_a_line_has_the_ids_of_the_call_being_served() -> None:
    with logged() as lines, context.serving(CALL):
        lines.log.warning("x")
    fields = lines.fields
    assert (fields["trace_id"], fields["span_id"]) == (TRACE, SPAN)
    assert (fields["run_id"], fields["task_id"], fields["attempt"], fields["role"]) == ("run1", "run1.2", 3, "designer")


def test_the_current_span_comes_before_that_of_the_call() -> None:
    tracer = TracerProvider().get_tracer("test")
    with logged() as lines, context.serving(CALL), tracer.start_as_current_span("s") as span:
        lines.log.info("x")
    assert lines.fields["span_id"] == trace.format_span_id(span.get_span_context().span_id)


def test_an_invalid_trace_parent_of_a_caller_is_left_out() -> None:
    with logged() as lines, context.serving(context.CallContext(traceparent="nonsense\n")):
        lines.log.info("x")
    assert "trace_id" not in lines.fields


def test_a_record_may_name_its_run_itself() -> None:
    with logged() as lines:
        lines.log.info("x", extra={"run_id": "run9", "attempt": 2})
    assert (lines.fields["run_id"], lines.fields["attempt"]) == ("run9", 2)


def test_a_line_about_another_run_has_no_ids_of_this_one() -> None:
    with logged() as lines, context.serving(CALL):
        lines.log.info("x", extra={"run_id": "run9"})
    assert lines.fields["run_id"] == "run9"
    assert not {"task_id", "attempt", "role", "trace_id"} & lines.fields.keys()


def test_an_exception_is_class_message_and_stack() -> None:
    with logged() as lines:
        try:
            raise ValueError("no order 17\nof any kind")
        except ValueError:
            lines.log.exception("failed")
    error = lines.fields["error"]
    assert (error["type"], error["message"]) == ("ValueError", "no order 17\nof any kind")
    assert error["stack"].startswith("Traceback (most recent call last):\n")
    assert error["stack"].endswith("ValueError: no order 17\nof any kind")


def test_a_class_of_a_module_has_the_name_of_the_module() -> None:
    with logged() as lines:
        lines.log.error("x", exc_info=UnicodeEncodeError("a", "b", 0, 1, "c"))
    assert lines.fields["error"]["type"] == "UnicodeEncodeError"
    with logged() as lines:
        lines.log.error("x", exc_info=re.error("bad"))
    assert lines.fields["error"]["type"].startswith("re.")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (2**70, str(2**70)),
        (float("nan"), "nan"),
        ({"a": [1]}, "{'a': [1]}"),
        (b"\x00", "b'\\x00'"),
    ],
)
def test_values_that_json_lacks_are_text(value: object, shown: object) -> None:
    with logged() as lines:
        lines.log.info("x", extra={"value": value})
    assert lines.fields["value"] == shown


def test_a_credential_of_a_tool_stays_hidden() -> None:
    with logged() as lines:
        lines.log.info("with %s", Secret("s3cr3t-value"), extra={"token": Secret("s3cr3t-value")})
    assert "s3cr3t" not in lines.text
    assert lines.fields["token"] == "***"


def test_a_value_that_has_no_text_does_not_lose_the_line() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    with logged() as lines:
        lines.log.info("x", extra={"value": Broken(), "huge": 10 ** (sys.get_int_max_str_digits() + 1)})
    assert lines.fields["value"] == "<Broken>"
    assert lines.fields["huge"] == "<int>"


def test_the_fields_of_the_line_itself_cannot_be_replaced() -> None:
    with logged() as lines:
        lines.log.info("x", extra={"level": "error", "service": "other", "time": "never", "event": "y"})
    fields = lines.fields
    assert (fields["level"], fields["service"]) == ("info", "designer")
    assert fields["time"] != "never"


def test_texts_stacks_and_fields_of_a_line_are_bounded() -> None:
    extra = {f"own_{number}": "y" * 10 * MAX_TEXT for number in range(10 * MAX_EXTRA)}
    with logged() as lines:
        lines.log.error("x" * 10 * MAX_TEXT, exc_info=ValueError("z" * 10 * MAX_STACK), extra={**extra, "run_id": "r"})
    fields = lines.fields
    assert len(fields["message"]) == len(fields["own_0"]) == MAX_TEXT
    assert len(fields["error"]["stack"]) <= MAX_STACK
    assert sum(name.startswith("own_") for name in fields) == MAX_EXTRA - 1
    assert fields["run_id"] == "r", "the ids are kept first"
