/** The form for a new run. */
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { SubmitRunRequestSchema } from "@api/archon/api/orchestrator/v1/orchestrator_service_pb.js";

export interface Draft {
  goal: string;
  /** The number of a strategy; empty: by the roles. */
  strategy: string;
  roles: string[];
  sessionId: string;
  maxTokens: string;
  maxUsd: string;
  seconds: string;
}

/** Returns the request of a form, without its id. A budget without a number is not set. */
export function submitOf(draft: Draft): MessageInitShape<typeof SubmitRunRequestSchema> {
  const [tokens, usd, seconds] = [draft.maxTokens, draft.maxUsd, draft.seconds].map(positive) as [number, number, number];
  const budget = { maxTokens: BigInt(Math.floor(tokens)), maxCostMicroUsd: BigInt(Math.round(usd * 1e6)) };
  return {
    goal: [{ content: { case: "text", value: draft.goal.trim() } }],
    strategy: Number(draft.strategy),
    roles: draft.roles,
    sessionId: draft.sessionId.trim(),
    ...(tokens > 0 || usd > 0 ? { budget } : {}),
    ...(seconds > 0 ? { timeout: durationFromMs(seconds * 1_000) } : {}),
  };
}

function positive(text: string): number {
  const number = Number(text.trim());
  return Number.isFinite(number) && number > 0 && number < Number.MAX_SAFE_INTEGER / 1e6 ? number : 0;
}
