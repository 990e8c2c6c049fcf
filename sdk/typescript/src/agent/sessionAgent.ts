/** The part of an agent that its sessions and calls use. */
import type { ArchonError } from "../errors.js";
import type { Attempt, Handler } from "./attempt.js";
import type { AttemptTable } from "./attemptTable.js";
import type { AgentSession } from "./session.js";

/** The part of an agent that its sessions use. */
export interface SessionAgent {
  readonly role: string;
  readonly instanceId: string;
  readonly stateful: boolean;
  readonly attempts: AttemptTable;
  readonly handler: Handler;
  readonly bidHandler: Handler;
  readonly waitingShare: number;
  readonly draining: boolean;
  refusal(superseded: Attempt | undefined, session: AgentSession | undefined): ArchonError | undefined;
  sessionOpened(session: AgentSession): number;
}
