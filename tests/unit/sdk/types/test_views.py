"""Views of the messages of runs."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from archon.api.common.v1 import common_pb2, failure_pb2, plan_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import answer_text
from archon.types import (
    Edge,
    Part,
    Plan,
    PlanStep,
    QuestionTerms,
    Run,
    RunAnswer,
    RunEvent,
    RunQuestion,
    RunRecord,
    RunTask,
    TaskRef,
    TaskState,
    Usage,
)
from archon.types.message_view import MessageView
from archon.wire import duration, timestamp

VIEWS = (Run, RunAnswer, RunEvent, RunQuestion, RunRecord, RunTask)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_each_field_of_its_message(view: type[MessageView[Any]]) -> None:
    (base,) = view.__orig_bases__  # type: ignore[attr-defined]
    fields = {field.name for field in base.__args__[0].DESCRIPTOR.fields if field.containing_oneof is None}
    assert fields - set(dir(view)) == ({"kind"} if view is RunQuestion else set()), "that is `is_approval`"


def test_a_run_of_which_nothing_is_known() -> None:
    run = Run(run_pb2.Run(run_id="r"))
    assert (run.run_id, run.strategy, run.state, run.paused) == ("r", "", TaskState.UNSPECIFIED, False)
    assert (run.goal, run.tasks, run.answers, run.questions, run.closed_questions, run.edges) == ((),) * 6
    assert (run.failure, run.plan, run.usage, run.create_time, run.end_time) == (None, None, Usage(), 0.0, 0.0)
    assert dict(run.metadata) == {}


def test_a_run_with_all_its_parts() -> None:
    message = run_pb2.Run(
        strategy=run_pb2.STRATEGY_PLAN,
        state=common_pb2.TASK_STATE_FAILED,
        goal=[common_pb2.Part(text="Write.")],
        tasks=[
            run_pb2.Task(task_id="t1", role="writer", start_time=timestamp(2.5), usage=common_pb2.Usage(tool_calls=1))
        ],
        answers=[
            run_pb2.Answer(role="writer", step_id="s1", parts=[common_pb2.Part(text="a"), common_pb2.Part(text="b")])
        ],
        failure=failure_pb2.Failure(reason=failure_pb2.ERROR_REASON_RUN_TIMEOUT, code=4, message="late"),
        create_time=timestamp(1.25),
        metadata={"a": "b"},
        edges=[common_pb2.Edge(upstream="a", downstream="b")],
        plan=plan_pb2.Plan(
            goal="g", revision=1, steps=[plan_pb2.PlanStep(step_id="s1", description="d", confidence=1)]
        ),
    )
    run = Run.from_proto(message)
    assert (run.strategy, run.state, run.create_time, dict(run.metadata)) == ("plan", "failed", 1.25, {"a": "b"})
    assert (run.goal, run.edges) == ((Part(text="Write."),), (Edge("a", "b"),))
    assert run.plan == Plan(1, "g", (PlanStep("s1", "d"),))
    assert run.failure is not None
    assert (run.failure.reason, run.failure.code, run.failure.message) == ("RUN_TIMEOUT", "DEADLINE_EXCEEDED", "late")
    (task,), (answer,) = run.tasks, run.answers
    assert (task.role, task.start_time, task.end_time, task.usage) == ("writer", 2.5, 0.0, Usage(tool_calls=1))
    assert (answer.text, answer.step_id, answer_text(run)) == ("a\n\nb", "s1", "a\n\nb")


def test_a_question_of_a_run() -> None:
    terms = question_pb2.QuestionTerms(rule="r", on_timeout=question_pb2.TIMEOUT_POLICY_ABORT)
    message = run_pb2.Question(
        input_id="q", kind=question_pb2.QUESTION_KIND_APPROVAL, state=question_pb2.QUESTION_STATE_TIMED_OUT
    )
    message.prompt.add(text="Good?")
    question = RunQuestion(message)
    assert (question.text, question.is_approval, question.state) == ("Good?", True, "timed_out")
    assert (question.terms, question.plan, question.expire_time) == (None, None, 0.0)
    message.terms.CopyFrom(terms)
    assert RunQuestion(message).terms == QuestionTerms("r", on_timeout="abort")


def test_a_record_of_a_call() -> None:
    message = run_pb2.RunRecord(kind="tool", target="look", start_time=timestamp(3.0), duration=duration(0.5))
    message.task.task_id = "t1"
    record = RunRecord(message)
    assert (record.kind, record.target, record.start_time, record.duration) == ("tool", "look", 3.0, 0.5)
    assert record.task == TaskRef("t1", "", 0)


def test_the_data_of_an_event_are_json_types() -> None:
    message = run_pb2.RunEvent(run_id="r", seq=3, time=timestamp(1.5), task=common_pb2.TaskRef(task_id="t", attempt=2))
    message.result.role = "writer"
    message.result.state = common_pb2.TASK_STATE_INPUT_REQUIRED
    message.result.output.add(text="a")
    message.result.failure.reason = failure_pb2.ERROR_REASON_RUN_TIMEOUT
    message.result.failure.retry = failure_pb2.RETRY_LATER
    message.result.failure.retry_delay.FromMilliseconds(250)
    message.result.metadata["k"] = "v"
    event = RunEvent(message)
    assert (event.seq, event.time, event.type, event.task_id, event.task) == (
        3,
        1.5,
        "result",
        "t",
        TaskRef("t", "", 2),
    )
    data = json.loads(json.dumps(dict(event.data)))
    assert (data["role"], data["state"], data["metadata"], data["no_publish"]) == (
        *("writer", "input required", {"k": "v"}, False),
    )
    assert data["output"][0]["text"] == "a" and "url" not in data["output"][0]
    failure = data["failure"]
    assert (failure["reason"], failure["retry"], failure["retry_delay"]) == ("RUN_TIMEOUT", "later", 0.25)
    assert "usage" not in data, "a message that is not set"
    with pytest.raises(TypeError):
        event.data["role"] = "x"  # type: ignore[index]


def test_bytes_and_optional_fields_of_an_event() -> None:
    event = RunEvent(run_pb2.RunEvent(checkpoint=run_pb2.CheckpointTaken(data=b"\xff")))
    assert dict(event.data) == {"size": 0, "data": "/w==", "sequence": 0}
    dispatched = run_pb2.Dispatched(role="a")
    assert "conversation_version" not in RunEvent(run_pb2.RunEvent(dispatched=dispatched)).data
    dispatched.conversation_version = 0
    assert RunEvent(run_pb2.RunEvent(dispatched=dispatched)).data["conversation_version"] == 0


def test_an_event_of_a_later_version_has_no_type() -> None:
    event = RunEvent(run_pb2.RunEvent(seq=1))
    assert (event.type, dict(event.data), event.task, event.task_id) == ("", {}, None, "")


def test_a_view_cannot_be_changed_and_equals_that_of_an_equal_message() -> None:
    run = Run(run_pb2.Run(run_id="r"))
    with pytest.raises(AttributeError, match="cannot be changed"):
        run.proto = run_pb2.Run()
    assert run == Run(run_pb2.Run(run_id="r")) == copy.copy(run) == pickle.loads(pickle.dumps(run))
    assert run != Run(run_pb2.Run()) and run != run_pb2.Run(run_id="r")
    assert repr(RunTask(run_pb2.Task(task_id="t"))).startswith("RunTask(task_id='t', role=''")
