/** Folds the events of a task into its view. */
import { TaskState as TaskStateEnum } from "../api/archon/api/common/v1/common_pb.js";
import { Decision as DecisionEnum, QuestionKind, TimeoutPolicy } from "../api/archon/api/common/v1/question_pb.js";
import type {
  ApprovalRequested,
  InputRequested,
  ResultReceived,
  RunEvent,
  TaskStateChanged,
} from "../api/archon/api/orchestrator/v1/run_pb.js";
import type { Failure } from "../api/archon/api/common/v1/failure_pb.js";
import type { Decision } from "../agent/question.js";
import type { ArchonError } from "../errors.js";
import { fromFailure } from "../status.js";
import { textOf } from "../types/part.js";
import { stateName, usageFromProto, type TaskState } from "../types/usage.js";
import { byteLength, enumName, toMs } from "../wire.js";
import { newAttempt, type AttemptOutcome, type AttemptView } from "./attempt.js";
import { newQuestion } from "./question.js";
import type { TaskView } from "./task.js";

/** Characters of a text that are kept, its last ones. */
const TEXT_KEPT = 2_000;

/** The metadata key of the failure of an attempt that had begun when its instance gave it back. */
const GIVEN_BACK = "given_back";

/** Returns a failure; undefined if the field is not set. */
export function failureOf(message: Failure | undefined): ArchonError | undefined {
  return message !== undefined && (message.kind || message.message) ? fromFailure(message) : undefined;
}

/** Folds an event that occurred at `time`; one of another kind changes nothing. */
export function applyToTask(task: TaskView, event: RunEvent, time: number): void {
  const number = event.task?.attempt ?? 0;
  const known = task.attempts.findLast((each) => number === 0 || each.number === number);
  const attempt = known ?? newAttempt(number, "", time); // before the first dispatch, one that is not kept
  spend(attempt, event);
  const content = event.event;
  switch (content.case) {
    case "taskState":
      changeState(task, attempt, content.value, time);
      break;
    case "dispatched":
      closeQuestion(task, time);
      [task.state, task.text, task.thinking, task.written] = ["WORKING", "", "", 0];
      task.toolCalls.clear();
      task.attempts.push(newAttempt(number, content.value.instanceId, time));
      break;
    case "result":
      endWithResult(task, event, content.value, time);
      break;
    case "lost":
      waitAgain(task, attempt, time, "lost", content.value.failure, content.value.instanceId, 0);
      break;
    case "rejected": {
      const { failure, instanceId, notBefore } = content.value;
      const outcome = failure !== undefined && GIVEN_BACK in failure.metadata ? "given back" : "rejected";
      waitAgain(task, attempt, time, outcome, failure, instanceId, toMs(notBefore));
      break;
    }
    case "retry":
      if (content.value.resolution !== undefined) {
        task.resolution = content.value.resolution; // no attempt has failed
        break;
      }
      closeQuestion(task, time);
      waitAgain(task, attempt, time, "retried", content.value.failure, "", toMs(content.value.notBefore));
      break;
    case "discarded":
      attempt.discarded = true;
      if (attempt === task.attempt && attempt.ended === 0) endTask(task, time, "CANCELED", task.stopping);
      break;
    case "inputRequested":
      ask(task, attempt, event, content.value, time);
      break;
    case "approvalRequested":
      ask(task, attempt, event, content.value, time);
      break;
    case "questionTimedOut": {
      const question = questionOf(task, content.value.inputId);
      question.timedOut = enumName(TimeoutPolicy as unknown as Record<number, string>, content.value.policy) || "unknown";
      task.notes.push({ ...question });
      break;
    }
    case "inputGiven": {
      const question = questionOf(task, content.value.inputId);
      question.ended ||= time;
      [question.answer, question.identity] = [textOf(content.value.parts), content.value.identity];
      question.decision = enumName(DecisionEnum as unknown as Record<number, string>, content.value.decision) as Decision;
      if (task.state === "INPUT_REQUIRED") {
        task.state = attempt === task.attempt && attempt.ended === 0 ? "WORKING" : "SUBMITTED";
      }
      task.notes.push({ ...question });
      break;
    }
    case "delegated": {
      const { delegationId, childTaskId, role, failure } = content.value;
      const repeated = task.children.has(childTaskId);
      const refusal = failure && fromFailure(failure);
      const delegation = { delegationId, childTaskId, role, started: time, cancelled: 0, refusal, repeated };
      if (childTaskId) task.children.add(childTaskId);
      attempt.delegations.push(delegation);
      if (repeated || refusal !== undefined) task.notes.push({ ...delegation });
      break;
    }
    case "delegationCancelled": {
      const { delegationId } = content.value;
      const delegation = attempt.delegations.find((each) => each.delegationId === delegationId);
      if (delegation === undefined) break;
      delegation.cancelled = time;
      task.notes.push({ ...delegation });
      break;
    }
    case "budgetReserved":
      if (content.value.budget !== undefined) break;
      attempt.budgetRefused = true;
      task.lastFailure = { outcome: "working", failure: failureOf(content.value.failure), instanceId: "", retryDelayMs: 0 };
      break;
    case "checkpoint":
      task.checkpointBytes = Number(content.value.size) || content.value.data.length;
      break;
    case "published":
      if (Number(content.value.ref?.seq ?? 0n) === task.resultSeq) task.version = Number(content.value.ref?.version ?? 0n);
      break;
    default:
      if (attempt === task.attempt) progress(task, event);
  }
  if (task.attempt !== undefined && task.attempt.ended > 0) task.toolCalls.clear();
}

/** Ends the task, and its last attempt and question with it, unless an earlier event has. */
export function endTask(task: TaskView, time: number, state: TaskState, failure?: ArchonError): void {
  [task.state, task.ended, task.failure] = [state, time, failure];
  if (task.attempt !== undefined) endAttempt(task.attempt, time, state.toLowerCase() as AttemptOutcome, failure);
  closeQuestion(task, time);
}

function changeState(task: TaskView, attempt: AttemptView, changed: TaskStateChanged, time: number): void {
  const failure = failureOf(changed.failure);
  if (changed.stopping) {
    task.stopping = failure ?? fromFailure(changed.failure);
    if (task.question !== undefined) {
      closeQuestion(task, time); // no one has to answer what is not needed any more
      task.state = "WORKING";
    }
    if (attempt.ended === 0) attempt.stopping = task.stopping;
    return;
  }
  task.state = stateName(changed.state);
  if (failure !== undefined) task.lastFailure = { outcome: "failed", failure, instanceId: "", retryDelayMs: 0 };
  if (task.final) endTask(task, time, task.state, failure);
}

function endWithResult(task: TaskView, event: RunEvent, result: ResultReceived, time: number): void {
  const failure = failureOf(result.failure);
  task.state = stateName(result.state);
  task.lastFailure = failure && { outcome: "failed", failure, instanceId: "", retryDelayMs: 0 };
  if (!task.final) return;
  task.resultSeq = Number(event.seq);
  const isOld = (event.task?.attempt ?? 0) === 0 && result.resolution === undefined;
  task.reused = result.state === TaskStateEnum.COMPLETED && isOld;
  if (result.resolution !== undefined) task.resolution = result.resolution;
  endTask(task, time, task.state, failure);
}

/** Ends an attempt that was lost or rejected, or that failed for now. */
function waitAgain(
  task: TaskView,
  attempt: AttemptView,
  time: number,
  outcome: AttemptOutcome,
  message: Failure | undefined,
  instanceId: string,
  retryTime: number,
): void {
  const failure = failureOf(message);
  attempt.retryTime = retryTime;
  endAttempt(attempt, time, outcome, failure);
  task.state = task.question === undefined ? "SUBMITTED" : "INPUT_REQUIRED";
  task.lastFailure = { outcome, failure, instanceId, retryDelayMs: Math.max(0, retryTime - time) };
}

function ask(
  task: TaskView,
  attempt: AttemptView,
  event: RunEvent,
  asked: InputRequested | ApprovalRequested,
  time: number,
): void {
  closeQuestion(task, time);
  const question = newQuestion(asked.inputId, task.role);
  question.text = textOf(asked.prompt);
  [question.isApproval, question.attempt, question.asked] = [true, event.task?.attempt ?? 0, time];
  if ("schemaJson" in asked) {
    question.isApproval = asked.kind === QuestionKind.APPROVAL;
    question.schemaJson = asked.schemaJson;
    question.continues = asked.sequence > 0n && attempt === task.attempt;
    task.checkpointBytes = asked.checkpoint.length || task.checkpointBytes;
  }
  task.questions.push(question);
  task.state = "INPUT_REQUIRED";
  if (!question.continues) endAttempt(attempt, time, "asked");
}

function questionOf(task: TaskView, inputId: string): ReturnType<typeof newQuestion> {
  return task.questions.findLast((each) => each.inputId === inputId) ?? newQuestion(inputId, task.role);
}

/** Adds a transient event of the last attempt. */
function progress(task: TaskView, event: RunEvent): void {
  const content = event.event;
  switch (content.case) {
    case "thinkingDelta":
      task.thinking = (task.thinking + content.value.text).slice(-TEXT_KEPT);
      break;
    case "textDelta":
      task.thinking = "";
      task.written = Number(content.value.offset) + byteLength(content.value.text);
      task.text = (task.text + content.value.text).slice(-TEXT_KEPT);
      break;
    case "toolEvent": {
      const { callId, toolName, argumentsJson, resultJson } = content.value;
      task.thinking = "";
      task.toolCalls.delete(callId);
      if (argumentsJson || !resultJson) task.toolCalls.set(callId, toolName);
      break;
    }
    default:
      break;
  }
}

function endAttempt(attempt: AttemptView, time: number, outcome: AttemptOutcome, failure?: ArchonError): void {
  if (attempt.ended === 0) [attempt.ended, attempt.outcome, attempt.failure] = [time, outcome, failure];
}

function closeQuestion(task: TaskView, time: number): void {
  if (task.question !== undefined) task.question.ended = time;
}

/** Notes an attempt's usage; a result that a person has approved repeats it, one that replaces it has no usage. */
function spend(attempt: AttemptView, { event }: RunEvent): void {
  const source =
    event.case === "approvalRequested"
      ? event.value.result?.usage
      : event.case === "result" || event.case === "retry" || event.case === "inputRequested" || event.case === "discarded"
        ? event.value.usage
        : undefined;
  if (source === undefined) return;
  const usage = usageFromProto(source);
  if (attempt.usage === undefined || Object.keys(usage).length > 0) attempt.usage = usage;
}
