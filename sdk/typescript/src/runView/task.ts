/** Tasks of a run, and why they wait. Times are in milliseconds since the epoch; 0 if the event has not occurred. */
import type { Resolution } from "../api/archon/api/common/v1/plan_pb.js";
import type { ArchonError } from "../errors.js";
import { addUsage, isFinal, type TaskState, type Usage } from "../types/usage.js";
import type { AttemptOutcome, AttemptView, Delegation } from "./attempt.js";
import type { QuestionView } from "./question.js";

/** The last failure of a task: its own, or that of an attempt. */
export interface LastFailure {
  readonly outcome: AttemptOutcome;
  readonly failure: ArchonError | undefined;
  readonly instanceId: string;
  /** Until the next attempt. */
  readonly retryDelayMs: number;
}

/** Why a task waits: for other tasks, the answer of a person, the run to be resumed, or an instance. */
export interface Wait {
  readonly kind: "tasks" | "person" | "resume" | "instance";
  readonly names: readonly string[];
}

/** One task. */
export class TaskView {
  parentTaskId = "";
  /** The step of the plan that the task executes; empty if none. */
  stepId = "";
  /** The purpose of the planner's task: `plan 1`, `check of plan 1` or `answer`. */
  purpose = "";
  /** Ids of the tasks that must complete first, if the task's own event names them. */
  predecessors: readonly string[] = [];
  state: TaskState = "SUBMITTED";
  ended = 0;
  readonly attempts: AttemptView[] = [];
  readonly questions: QuestionView[] = [];
  failure: ArchonError | undefined;
  lastFailure: LastFailure | undefined;
  /** Why the task is being stopped. */
  stopping: ArchonError | undefined;
  /** Exceptional events, as things were at the time. */
  readonly notes: (QuestionView | Delegation)[] = [];
  /** The last 2,000 characters of the last attempt's text. */
  text = "";
  /** The last 2,000 characters of the model's thinking, until text or a tool call follows it. */
  thinking = "";
  /** Bytes of the last attempt's text. */
  written = 0;
  /** Ids of the tasks that it has delegated, in any attempt. */
  readonly children = new Set<string>();
  /** Names of the tools that are executing, by call id. */
  readonly toolCalls = new Map<string, string>();
  checkpointBytes = 0;
  /** The event with the result; 0 before it. */
  resultSeq = 0;
  /** Whether the answer was taken over from a forked run. */
  reused = false;
  /** How the answer was chosen from the results of other steps. */
  resolution: Resolution | undefined;
  /** Version of the answer in shared memory. */
  version = 0;

  constructor(
    readonly taskId: string,
    readonly role: string,
    readonly created: number,
  ) {}

  /** The display name: the role, and the step or the purpose of the planner's task. */
  get label(): string {
    const more = this.stepId || this.purpose;
    return more ? `${this.role} (${more})` : this.role;
  }

  /** Whether the task has ended. */
  get final(): boolean {
    return isFinal(this.state);
  }

  /** The last attempt. */
  get attempt(): AttemptView | undefined {
    return this.attempts.at(-1);
  }

  /** The open question: a task asks one at a time. */
  get question(): QuestionView | undefined {
    const last = this.questions.at(-1);
    return last?.ended === 0 ? last : undefined;
  }

  /** The usage of all attempts, as far as events have it. */
  get usage(): Usage {
    return this.attempts.reduce<Usage>((sum, { usage = {} }) => addUsage(sum, usage), {});
  }
}
