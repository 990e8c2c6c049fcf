"""A handler's return value as a TaskResult."""

from __future__ import annotations

from archon.agent.history import shortened, turn_to_proto
from archon.agent.question import Question, question_to_proto
from archon.agent.task import TaskContext
from archon.agent.values import Answer, HistoryMessage, checked_checkpoint, parts_of
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError
from archon.surrogates import without_surrogates
from archon.types.part import add_parts
from archon.wire import policy_to_proto, text_of


def to_result(task: TaskContext, returned: object) -> agent_pb2.TaskResult:
    """The result of an answer, or of a question to a person.

    Raises ArchonError for anything but a string, None (no text), an Answer or a Question; FrameTooLarge for a
    checkpoint above 1 MiB.
    """
    match returned:
        case Question():
            return _input_required(task, returned)
        case Answer():
            return _completed(task, returned)
        case str() | None:
            return _completed(task, Answer(returned or ""))
    raise ArchonError(
        f"the handler of {task.role or 'this role'} returned {type(returned).__name__}, not str, Answer or Question"
    )


def _completed(task: TaskContext, answer: Answer) -> agent_pb2.TaskResult:
    usage = task._usage if answer.usage is None else answer.usage.proto
    result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, usage=usage, no_publish=not answer.publish)
    used = [item.proto for item in answer.used] if answer.used else task._context
    result.used.extend(item.ref for item in used)
    if answer.parts:
        add_parts(result.output, answer.parts)
    if answer.metadata:
        result.metadata.update(answer.metadata)
    if answer.text:
        result.output.add(text=without_surrogates(answer.text))
    if task._messages_read:
        result.messages_read = task._messages_read
    for item in answer.items:
        out = result.items.add(parts=parts_of(item), policy=policy_to_proto(item.policy))
        out.metadata.update(item.metadata)
    if task.remembers:
        result.conversation_version = task.conversation_version
        result.new_history.extend(_turn(task, answer, result))
    return result


def _turn(task: TaskContext, answer: Answer, result: agent_pb2.TaskResult) -> list[agent_pb2.HistoryMessage]:
    if answer.new_history is not None:
        return turn_to_proto(answer.new_history)
    question, reply = shortened(task.text), shortened(text_of(result.output))
    return turn_to_proto([HistoryMessage("user", question), HistoryMessage("assistant", reply)])


def _input_required(task: TaskContext, question: Question) -> agent_pb2.TaskResult:
    checkpoint = checked_checkpoint(question.checkpoint)
    result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_INPUT_REQUIRED, usage=task._usage, checkpoint=checkpoint)
    result.input_request.CopyFrom(question_to_proto(question, question.input_id or f"q{task.attempt}"))
    return result
