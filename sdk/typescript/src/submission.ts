/** Requests that submit runs. */
import { create } from "@bufbuild/protobuf";
import { randomUUID } from "node:crypto";
import { TraceContextSchema } from "./api/archon/api/common/v1/common_pb.js";
import { SubmitRunRequestSchema, type SubmitRunRequest } from "./api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { Strategy as StrategyEnum } from "./api/archon/api/orchestrator/v1/run_pb.js";
import { currentTrace } from "./context.js";
import { InvalidArgument } from "./errors.js";
import { checkedContent, type Content } from "./types/part.js";
import { budgetToProto, type Budget } from "./types/usage.js";
import { durationOf } from "./wire.js";

/** How a run is driven; empty: a single role is run as an agent, none or several as a pipeline. */
export type Strategy = "agent" | "pipeline" | "plan" | "";

/** Options of a submit. */
export interface SubmitOptions {
  readonly roles?: readonly string[];
  readonly capabilities?: readonly string[];
  /** Versions that the instances of roles must have, such as `1.2` or `1.*`. */
  readonly versions?: Readonly<Record<string, string>>;
  /** All tasks of a role go to the version that its newest instance has as the run is submitted. */
  readonly pinVersions?: boolean;
  readonly strategy?: Strategy;
  /** The role that plans, with `plan`. */
  readonly planner?: string;
  readonly checkAlignment?: boolean;
  readonly budget?: Budget;
  readonly sessionId?: string;
  /** By default a new one: two calls submit two runs, while the retries of one call submit one. */
  readonly requestId?: string;
  /** The run's time; 1 h by default. */
  readonly runTimeoutMs?: number;
  readonly metadata?: Readonly<Record<string, string>>;
  /** A plan that the run begins with, as one JSON object. */
  readonly planJson?: string;
}

/** Returns the number of a strategy. Throws InvalidArgument for an unknown one. */
export function strategyToProto(name: string): StrategyEnum {
  if (!name) return StrategyEnum.UNSPECIFIED;
  if (["agent", "pipeline", "plan"].includes(name)) return StrategyEnum[name.toUpperCase() as keyof typeof StrategyEnum];
  throw new InvalidArgument(`unknown strategy '${name}'; use one of agent, pipeline, plan`);
}

/** Returns the request of a submit. The run continues the trace of the current span, or of the call being served. */
export function submitRequest(goal: Content, options: SubmitOptions): SubmitRunRequest {
  const trace = currentTrace();
  return create(SubmitRunRequestSchema, {
    requestId: options.requestId || randomUUID(),
    goal: checkedContent(goal, "the goal"),
    roles: [...(options.roles ?? [])],
    capabilities: [...(options.capabilities ?? [])],
    versions: { ...options.versions },
    pinVersions: options.pinVersions ?? false,
    strategy: strategyToProto(options.strategy ?? ""),
    planner: options.planner ?? "",
    checkAlignment: options.checkAlignment ?? false,
    sessionId: options.sessionId ?? "",
    metadata: { ...options.metadata },
    planJson: options.planJson ?? "",
    ...(options.budget !== undefined && { budget: budgetToProto(options.budget) }),
    ...(options.runTimeoutMs !== undefined && { timeout: durationOf(options.runTimeoutMs) }),
    ...(trace.traceparent && { trace: create(TraceContextSchema, trace) }),
  });
}
