/** Runs and their events, as a client reads them. */
import { RunEventSchema, type Question as QuestionMessage, type Run as RunMessage, type RunEvent as EventMessage, type Task as TaskMessage } from "../api/archon/api/orchestrator/v1/run_pb.js";
import { QuestionKind } from "../api/archon/api/common/v1/question_pb.js";
import type { Plan } from "../api/archon/api/common/v1/plan_pb.js";
import { ResourceExhausted, type ArchonError } from "../errors.js";
import { fromFailure } from "../status.js";
import { toMs } from "../wire.js";
import { partFromProto, textOf, type Part } from "./part.js";
import { refFromProto, stateName, usageFromProto, type TaskRef, type TaskState, type Usage } from "./usage.js";

/** A final answer of a run. */
export interface RunAnswer {
  readonly role: string;
  readonly stepId: string;
  readonly taskId: string;
  readonly text: string;
  readonly parts: readonly Part[];
}

/** A task of a run. */
export interface RunTask {
  readonly taskId: string;
  readonly role: string;
  readonly state: TaskState;
  readonly attempt: number;
  readonly instanceId: string;
  readonly parentTaskId: string;
  readonly stepId: string;
  readonly failure: ArchonError | undefined;
}

/** A question to a person. */
export interface RunQuestion {
  readonly inputId: string;
  readonly runId: string;
  readonly taskId: string;
  readonly role: string;
  readonly text: string;
  readonly schemaJson: string;
  readonly isApproval: boolean;
  readonly approvers: readonly string[];
}

export function questionFromMessage(message: QuestionMessage): RunQuestion {
  const { inputId, runId, taskId, role, schemaJson, approvers } = message;
  const isApproval = message.kind === QuestionKind.APPROVAL;
  return { inputId, runId, taskId, role, text: textOf(message.prompt), schemaJson, isApproval, approvers };
}

export function taskFromMessage(message: TaskMessage): RunTask {
  const { taskId, role, attempt, instanceId, parentTaskId, stepId, failure } = message;
  return {
    taskId,
    role,
    state: stateName(message.state),
    attempt,
    instanceId,
    parentTaskId,
    stepId,
    failure: failure && fromFailure(failure),
  };
}

/** The state of a run. `proto` is its message, with all that has no property here. */
export class Run {
  constructor(readonly proto: RunMessage) {}

  get runId(): string {
    return this.proto.runId;
  }

  get state(): TaskState {
    return stateName(this.proto.state);
  }

  get paused(): boolean {
    return this.proto.paused;
  }

  get sessionId(): string {
    return this.proto.sessionId;
  }

  /** Sequence number of the last event. */
  get lastSeq(): number {
    return Number(this.proto.lastSeq);
  }

  get tasks(): readonly RunTask[] {
    return this.proto.tasks.map(taskFromMessage);
  }

  get answers(): readonly RunAnswer[] {
    return this.proto.answers.map(({ role, stepId, taskId, parts }) => {
      return { role, stepId, taskId, text: textOf(parts), parts: parts.map(partFromProto) };
    });
  }

  /** Why it failed. */
  get failure(): ArchonError | undefined {
    return this.proto.failure && fromFailure(this.proto.failure);
  }

  get usage(): Usage {
    return usageFromProto(this.proto.usage);
  }

  /** The questions that wait for a person. */
  get questions(): readonly RunQuestion[] {
    return this.proto.questions.map(questionFromMessage);
  }

  get plan(): Plan | undefined {
    return this.proto.plan;
  }

  /**
   * The text of the final answers; if there are several, each below the name of its role. Throws ResourceExhausted /
   * MESSAGE_TOO_LARGE if they are missing because the run was too large for the response.
   */
  get text(): string {
    const { answers } = this;
    if (this.proto.truncated && answers.length === 0) {
      throw new ResourceExhausted(
        `the answers of run ${this.runId} are too large for one response: watch it to get each by itself`,
        { reason: "MESSAGE_TOO_LARGE", metadata: { run_id: this.runId } },
      );
    }
    if (answers.length === 1) return answers[0]?.text ?? "";
    const author = ({ role, stepId }: RunAnswer): string => (stepId ? `${role} (${stepId})` : role);
    return answers.map((answer) => `${author(answer)}:\n${answer.text}`).join("\n\n");
  }
}

const ARMS = new Map(RunEventSchema.oneofs[0]?.fields.map((field) => [field.localName, field.name]));

/** An event of a run: its kind, and its content as the message in `proto.event`. */
export class RunEvent {
  constructor(readonly proto: EventMessage) {}

  get runId(): string {
    return this.proto.runId;
  }

  /** The event's number in the run, contiguous from 1; 0 for a transient event, such as a piece of text. */
  get seq(): number {
    return Number(this.proto.seq);
  }

  /** When it was decided, in milliseconds since the Unix epoch. */
  get timeMs(): number {
    return toMs(this.proto.time);
  }

  /** The kind of event by its name in the contract, such as `text_delta`; empty if it is unknown to this version. */
  get kind(): string {
    return ARMS.get(this.proto.event.case ?? "") ?? "";
  }

  /** The attempt that the event concerns; undefined if it concerns the run. */
  get task(): TaskRef | undefined {
    return this.proto.task && refFromProto(this.proto.task);
  }
}
