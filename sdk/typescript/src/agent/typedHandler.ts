/** Handlers of roles with an output, and handlers of bids. */
import { FailedPrecondition, InvalidArgument, TaskRejected } from "../errors.js";
import type { Profile } from "../registry/registration.js";
import { SchemaCheck } from "../schema.js";
import type { Handler } from "./attempt.js";
import { Question } from "./question.js";
import type { Task } from "./task.js";

const MAX_ANSWER = 16_000;

/** Returns a handler whose answers are one JSON part, of a value that matches the schema, or of its JSON as a text. */
export function typedHandler(handler: Handler, schema: object): Handler {
  const check = new SchemaCheck(schema, "the output of the role");
  return async (task: Task) => {
    const returned = await handler(task);
    if (returned === undefined || returned === null || returned instanceof Question) return returned;
    const isOther = task.outputSchemaJson !== "" || task.allowedTools.length > 0 || task.proto.planRequest !== undefined;
    if (typeof returned === "string" && isOther) return returned;
    let value: unknown = returned;
    try {
      if (typeof returned === "string") value = JSON.parse(returned);
    } catch {
      throw mismatch([{ field: "(all)", description: "the answer is not JSON" }], returned as string);
    }
    const violations = isOther ? [] : check.violations(value);
    if (violations.length > 0) throw mismatch(violations, JSON.stringify(value));
    return { json: value };
  };
}

function mismatch(fieldViolations: { field: string; description: string }[], text: string): FailedPrecondition {
  const reasons = fieldViolations.map(({ field, description }) => `${field}: ${description}`).join("; ");
  return new FailedPrecondition(`the answer does not match its output type: ${reasons}`, {
    reason: "OUTPUT_MISMATCH",
    fieldViolations,
    metadata: { answer: text.slice(0, MAX_ANSWER) },
  });
}

/** What an agent expects of executing a step. */
export interface Bid {
  readonly costMicroUsd?: number;
  readonly seconds?: number;
  readonly quality?: number;
}

/** Makes a bid for the step in `task.proto.bidRequest`; undefined: the agent does not bid. */
export type OnBid = (task: Task) => Promise<Bid | undefined> | Bid | undefined;

/** Returns the handler of tasks that ask for a bid. Without `onBid`, the bid has the estimates of the profile. */
export function bidHandler(onBid: OnBid | undefined, profile: Profile | undefined): Handler {
  return async (task: Task) => {
    const bid = onBid === undefined ? expected(profile) : await onBid(task);
    if (bid === undefined) throw new TaskRejected(`${task.role} does not bid for this step`);
    const { costMicroUsd = 0, seconds = 0, quality = 0 } = bid;
    if (![costMicroUsd, seconds, quality].every((each) => Number.isFinite(each) && each >= 0)) {
      throw new InvalidArgument("the numbers of a bid are finite, and not negative");
    }
    return { json: { cost_micro_usd: costMicroUsd, seconds, quality }, publish: false };
  };
}

function expected(profile: Profile | undefined): Bid | undefined {
  const { expectedCostMicroUsd = 0, expectedLatencyMs = 0, expectedQuality = 0 } = profile ?? {};
  if (expectedCostMicroUsd === 0 && expectedLatencyMs === 0 && expectedQuality === 0) return undefined;
  return { costMicroUsd: expectedCostMicroUsd, seconds: expectedLatencyMs / 1000, quality: expectedQuality };
}
