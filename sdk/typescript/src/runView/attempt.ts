/** Attempts at tasks, and the delegations of each. Times are in milliseconds since the epoch; 0 if the event has not occurred. */
import type { ArchonError } from "../errors.js";
import type { Usage } from "../types/usage.js";

/** How an attempt ended; `working` if it has not. `asked`: with a question to a person. */
export type AttemptOutcome =
  | "working"
  | "completed"
  | "failed"
  | "canceled"
  | "rejected"
  | "given back"
  | "retried"
  | "lost"
  | "asked";

/** A delegation. `repeated`: an earlier delegation has created the task. */
export interface Delegation {
  delegationId: string;
  childTaskId: string;
  role: string;
  started: number;
  cancelled: number;
  refusal: ArchonError | undefined;
  repeated: boolean;
}

/** One dispatch of a task to an instance. */
export interface AttemptView {
  number: number;
  instanceId: string;
  started: number;
  ended: number;
  outcome: AttemptOutcome;
  failure: ArchonError | undefined;
  /** Why it was ordered to stop. */
  stopping: ArchonError | undefined;
  usage: Usage | undefined;
  /** The earliest time of the next attempt; 0 if it may start at once. */
  retryTime: number;
  delegations: Delegation[];
  /** Whether a request for more of the budget was refused. */
  budgetRefused: boolean;
  /** Whether a result came too late. */
  discarded: boolean;
}

export function newAttempt(number: number, instanceId: string, started: number): AttemptView {
  return {
    number,
    instanceId,
    started,
    ended: 0,
    outcome: "working",
    failure: undefined,
    stopping: undefined,
    usage: undefined,
    retryTime: 0,
    delegations: [],
    budgetRefused: false,
    discarded: false,
  };
}
