/** Values that a handler receives and returns. */
import { create, toBinary } from "@bufbuild/protobuf";
import { HistoryMessageSchema, type HistoryMessage as HistoryProto } from "../api/archon/api/agent/v1/agent_pb.js";
import { PropagationPolicy as PolicyEnum, type ContextItem as ContextProto } from "../api/archon/api/common/v1/common_pb.js";
import { InvalidArgument } from "../errors.js";
import { isText, partFromProto, partToProto, textOf, type Part } from "../types/part.js";
import type { Usage } from "../types/usage.js";
import { withoutSurrogates } from "../wire.js";

export const MAX_CHECKPOINT = 1024 * 1024;
const MAX_TURN = 512 * 1024;

/** Characters of a question or an answer that are remembered by default. */
const MAX_CHARS = 60_000;

/** The key of a task's metadata that names the session of its run, if the task has no conversation in it. */
export const SESSION_KEY = "dev.archon/session";

/** How much of a role's work an edge lets through; each includes the ones before it. */
export type PropagationPolicy = "final_response_only" | "tool_results" | "full_history";

const POLICIES: Record<PropagationPolicy, PolicyEnum> = {
  final_response_only: PolicyEnum.FINAL_RESPONSE_ONLY,
  tool_results: PolicyEnum.TOOL_RESULTS,
  full_history: PolicyEnum.FULL_HISTORY,
};

/** Returns the number of a policy. Throws InvalidArgument for an unknown one. */
export function policyToProto(policy: PropagationPolicy): PolicyEnum {
  if (Object.hasOwn(POLICIES, policy)) return POLICIES[policy];
  throw new InvalidArgument(`unknown policy '${policy}'; use one of ${Object.keys(POLICIES).join(", ")}`);
}

/** Returns a policy; the narrowest one if the value is unspecified or unknown. */
export function policyFromProto(number: PolicyEnum): PropagationPolicy {
  const found = Object.entries(POLICIES).find(([, each]) => each === number);
  return (found?.[0] as PropagationPolicy | undefined) ?? "final_response_only";
}

/** The answer of an upstream role. `version` is 0 if it comes from the run itself, not from shared memory. */
export interface ContextItem {
  readonly role: string;
  readonly text: string;
  readonly parts: readonly Part[];
  readonly version: number;
  readonly policy: PropagationPolicy;
  readonly stepId: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export function contextFromProto(item: ContextProto): ContextItem {
  return {
    role: item.ref?.role ?? "",
    text: textOf(item.parts),
    parts: item.parts.map(partFromProto),
    version: Number(item.ref?.version ?? 0n),
    policy: policyFromProto(item.policy),
    stepId: item.stepId,
    metadata: { ...item.metadata },
  };
}

/** One message of the session history: of system, user, assistant or tool; `parts` precede `text`. */
export interface HistoryMessage {
  readonly role: string;
  readonly text?: string;
  readonly parts?: readonly Part[];
  readonly metadata?: Readonly<Record<string, string>>;
}

export function historyFromProto(message: HistoryProto): HistoryMessage {
  const others = message.parts.filter((part) => !isText(part)).map(partFromProto);
  return { role: message.role, text: textOf(message.parts), parts: others, metadata: { ...message.metadata } };
}

/** Returns the messages that one answer adds. Throws InvalidArgument / FRAME_TOO_LARGE above 512 KiB. */
export function turnToProto(turn: readonly HistoryMessage[]): HistoryProto[] {
  const messages = turn.map(({ role, text = "", parts = [], metadata = {} }) =>
    create(HistoryMessageSchema, {
      role,
      parts: [...parts.map(partToProto), ...(text ? [partToProto({ text })] : [])],
      metadata: { ...metadata },
    }),
  );
  const size = messages.reduce((sum, each) => sum + toBinary(HistoryMessageSchema, each).length, 0);
  if (size <= MAX_TURN) return messages;
  throw new InvalidArgument(`a turn of ${size} bytes is too large for the session history; the limit is ${MAX_TURN}`, {
    reason: "FRAME_TOO_LARGE",
  });
}

/** Returns a text, with its middle left out if it is long. */
export function shortened(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  const half = MAX_CHARS / 2;
  const left = withoutSurrogates(text.slice(0, half));
  return `${left}\n[... ${text.length - 2 * half} characters left out ...]\n${withoutSurrogates(text.slice(-half))}`;
}

/** An item to publish beside a role's answer, for edges of this `policy` or a wider one. `parts` precede `text`. */
export interface Item {
  readonly text?: string;
  readonly policy?: PropagationPolicy;
  readonly parts?: readonly Part[];
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The answer of a handler, if a plain text is not enough. `parts` precede `text`. */
export interface Answer {
  readonly text?: string;
  readonly parts?: readonly Part[];
  /** A JSON value, as one part. */
  readonly json?: unknown;
  /** By default what the task has counted. */
  readonly usage?: Usage;
  /** False: the answer is not published to the shared memory. */
  readonly publish?: boolean;
  readonly metadata?: Readonly<Record<string, string>>;
  /** A stateful role's addition to its session history; by default the question and the answer. */
  readonly newHistory?: readonly HistoryMessage[];
  /** Published right after the answer: to the edges that let one of them through it comes in place of the answer. */
  readonly items?: readonly Item[];
}

/** A role that a coordinator may delegate to. */
export interface DelegationTarget {
  readonly role: string;
  readonly description: string;
}

/** The answer to a delegation. */
export interface Delegated {
  readonly text: string;
  readonly parts: readonly Part[];
  readonly usage: Usage;
  /** Whether an earlier attempt at this task had made the same delegation. */
  readonly memoized: boolean;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Returns the bytes of a checkpoint. Throws InvalidArgument / FRAME_TOO_LARGE above 1 MiB. */
export function checkedCheckpoint(data: Uint8Array | string | undefined): Uint8Array {
  const bytes = typeof data === "string" ? Buffer.from(withoutSurrogates(data), "utf8") : (data ?? new Uint8Array(0));
  if (bytes.length <= MAX_CHECKPOINT) return bytes;
  throw new InvalidArgument(`a checkpoint of ${bytes.length} bytes is larger than the limit of ${MAX_CHECKPOINT}`, {
    reason: "FRAME_TOO_LARGE",
  });
}
