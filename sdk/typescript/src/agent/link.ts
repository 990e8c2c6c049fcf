/** The connection from a task to its orchestrator. */
import type { InputRequest, Progress } from "../api/archon/api/agent/v1/agent_pb.js";
import type { PeerMessage } from "../api/archon/api/agent/v1/message_pb.js";
import type {
  BudgetGrant,
  Delegate,
  DelegateResult,
  Input,
  MessageResult,
  Publish,
  Subscribe,
} from "../api/archon/api/agent/v1/session_pb.js";
import type { Budget } from "../api/archon/api/common/v1/common_pb.js";

/** Sends a task's frames to its orchestrator, and waits for the answers. */
export interface Link {
  /** Sends progress, which may be dropped. */
  progress(progress: Progress): void;
  /** Has a call that was recorded sent soon: the handler may work for long after it. */
  recorded(): void;
  /** Sends a checkpoint reliably. */
  save(data: Uint8Array): void;
  /** Sends an item reliably. */
  publish(item: Publish): void;
  delegate(delegation: Delegate, signal?: AbortSignal): Promise<DelegateResult>;
  sendMessage(message: PeerMessage): Promise<MessageResult>;
  subscribe(subscription: Subscribe): void;
  ask(question: InputRequest): Promise<Input>;
  reserve(budget: Budget): Promise<BudgetGrant>;
}
