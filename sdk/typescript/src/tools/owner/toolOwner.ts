/** The tools that an agent shares, with their leases and executions. */
import { context as otelContext, type Span } from "@opentelemetry/api";
import { createHash } from "node:crypto";
import { ToolStatus, type ToolResult } from "../../api/archon/api/tool/v1/tool_pb.js";
import { CallWindow } from "../../callWindow.js";
import { current, now, remainingMs, serving, type TraceContext } from "../../context.js";
import { AlreadyExists, invalidField, NotFound, ResourceExhausted, Unavailable, type ArchonError } from "../../errors.js";
import { log } from "../../log.js";
import type { Tool } from "../../registry/registration.js";
import { asError } from "../../status.js";
import * as names from "../../telemetry/names.js";
import { failSpan, startServing } from "../../telemetry/spans.js";
import type { TaskRef } from "../../types/usage.js";
import { failureToProto } from "../result.js";
import { ArgumentCheck, checkedTool, MAX_CALL_MS, type LimitedTool, type SharedTool, type SharedToolCall } from "../sharedTool.js";
import { Execution } from "./execution.js";
import { ToolFigures } from "./figures.js";
import { KeptResults } from "./keptResults.js";
import { LeaseTable, MAX_LEASE_MS, type Lease } from "./leases.js";

/** Milliseconds of a call if its caller asks for no other time. */
export const CALL_MS = 30_000;
const MAX_CALLS = 256;
const MAX_CALLS_OF_LEASE = 16;
const MAX_KEY = 256;
const BUSY_DELAY_MS = 1_000;

/** The key in the metadata of an error that ended a call which had begun: the tool may have acted. */
export const BEGUN = "begun";

/** Milliseconds of the caller's deadline that are kept for the answer to travel. */
const ANSWER_MARGIN = 100;

class Shared {
  readonly check: ArgumentCheck;
  readonly figures = new ToolFigures();
  readonly window: CallWindow | undefined;
  /** Calls whose tool has not returned. */
  calls = 0;

  constructor(readonly tool: LimitedTool) {
    this.check = new ArgumentCheck(tool.tool);
    this.window = tool.totalPerMinute > 0 ? new CallWindow(tool.totalPerMinute) : undefined;
  }

  get advertised(): Tool {
    return { ...this.tool.tool, share: this.figures.share(this.tool.maxCallsPerMinute) };
  }
}

/** A call of a tool, as it arrives. */
export interface ExecuteCall {
  readonly leaseId: string;
  readonly argumentsJson: string;
  readonly timeoutMs: number | undefined;
  readonly idempotencyKey: string;
  readonly trace: TraceContext;
  readonly signal: AbortSignal;
}

/** The tools that an agent shares. */
export class ToolOwner {
  /** Is called when a tool is shared or taken back. */
  onChanged: () => void = () => undefined;
  readonly #tools = new Map<string, Shared>();
  readonly #leases = new LeaseTable();
  readonly #kept = new KeptResults();
  /** Executions whose tool has not returned. */
  readonly #executions = new Set<Execution>();
  #isDraining = false;

  /** Throws AlreadyExists if two tools have the same name, InvalidArgument for a tool that cannot be shared. */
  constructor(tools: readonly SharedTool[] = []) {
    for (const tool of tools) this.share(tool);
  }

  // For the owner

  /** Shares a tool from now on. Throws AlreadyExists if one of its name is shared. */
  share(shared: SharedTool): void {
    const { name } = shared.tool;
    if (this.#tools.has(name)) throw new AlreadyExists(`a tool '${name}' is shared already`);
    this.#tools.set(name, new Shared(checkedTool(shared)));
    this.onChanged();
  }

  /** Takes a tool back at once, with its leases and its calls in progress. Returns the number of leases that ended. */
  revoke(toolName: string): number {
    this.#tools.delete(toolName);
    this.onChanged();
    const leases = this.#leases.all().filter((lease) => lease.toolName === toolName);
    for (const lease of leases) this.#revoke(lease, "owner");
    for (const execution of this.#executions) if (execution.name === toolName) execution.end(revoked());
    return leases.length;
  }

  /** Ends a lease at once, with its calls in progress. Returns whether it was in force. */
  revokeLease(leaseId: string, by: "owner" | "holder" = "owner"): boolean {
    const lease = this.#leases.remove(leaseId);
    if (lease !== undefined) this.#revoke(lease, by);
    return lease !== undefined;
  }

  /** Returns the leases that are in force. */
  leases(): Lease[] {
    return this.#leases.all();
  }

  /** The tools with their terms and current figures, sorted by name. */
  get advertised(): Tool[] {
    return [...this.#tools.keys()].sort().map((name) => this.#shared(name).advertised);
  }

  /** Calls whose outcome is not known yet. */
  get running(): number {
    return [...this.#executions].filter((execution) => !execution.done).length;
  }

  // For the server

  /** Refuses further leases and calls; calls in progress go on. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Waits until no call is in progress, at most so long. */
  async drained(ms: number): Promise<void> {
    const inProgress = [...this.#executions].filter((execution) => !execution.done);
    await Promise.all(inProgress.map((execution) => execution.waitLeft(ms)));
  }

  /** Ends all leases and calls with Unavailable. Returns the number of tools that ignore that. */
  async stop(ms = 2_000): Promise<number> {
    this.#isDraining = true;
    this.#leases.clear();
    const waiting = [...this.#executions].map((execution) => {
      execution.end(new Unavailable("the owner of the tool is stopping", { metadata: { [BEGUN]: "true" } }));
      return execution.waitLeft(ms);
    });
    return (await Promise.all(waiting)).filter((hasLeft) => !hasLeft).length;
  }

  /** Grants a lease. Returns it and the milliseconds for which it is granted. */
  lease(toolName: string, ms: number, task: TaskRef | undefined, instanceId: string): { lease: Lease; ms: number } {
    this.#checkOpen();
    const shared = this.#shared(toolName);
    if (!(ms > 0)) throw invalidField("duration", "must be above 0 s");
    const granted = Math.min(ms, MAX_LEASE_MS);
    const lease = this.#leases.grant(toolName, granted, shared.tool.maxCallsPerMinute, task, instanceId);
    log("info", `lease ${lease.leaseId.slice(0, 8)} of tool ${toolName} for ${instanceId || "an unnamed instance"}`);
    return { lease, ms: granted };
  }

  /** Executes a call: yields progress, then the result. */
  async *execute(call: ExecuteCall): AsyncGenerator<string | ToolResult, void, undefined> {
    this.#checkOpen();
    const lease = this.#leases.find(call.leaseId);
    let begun: { execution: Execution | ToolResult; limitMs: number };
    try {
      begun = this.#begin(lease, this.#shared(lease.toolName), call);
    } catch (error) {
      log("info", `shared tool ${lease.toolName}: refused (${asError(error).reason})`);
      throw error;
    }
    const { execution, limitMs } = begun;
    if (execution instanceof Execution) yield* execution.events(limitMs, call.signal);
    else yield execution;
  }

  #begin(lease: Lease, shared: Shared, call: ExecuteCall): { execution: Execution | ToolResult; limitMs: number } {
    const windows = [lease.window, shared.window];
    for (const window of windows) {
      const refusal = window?.refusal(lease.toolName);
      if (refusal !== undefined) throw refusal;
    }
    for (const window of windows) window?.take();
    const limitMs = limitOf(call.timeoutMs, shared.tool.timeoutMs);
    if (call.idempotencyKey.length > MAX_KEY) throw invalidField("idempotency_key", `must have at most ${MAX_KEY} characters`);
    const args = shared.check.read(call.argumentsJson);
    const key = call.idempotencyKey ? keptKey(lease, call.idempotencyKey) : undefined;
    const digest = key === undefined ? "" : createHash("sha256").update(canonical(args)).digest("hex");
    const earlier = key === undefined ? undefined : this.#kept.find(key, digest);
    if (earlier !== undefined) return { execution: earlier, limitMs };
    this.#checkRoom(lease, shared);
    const { span, within } = startCallSpan(lease, call.trace);
    const execution = new Execution(
      lease.toolName,
      limitMs,
      (ended) => this.#ended(ended, shared, key, span),
      (left) => {
        this.#executions.delete(left);
        lease.calls -= 1;
        shared.calls -= 1;
      },
    );
    execution.leaseId = lease.leaseId;
    const ends = now() + limitMs;
    const seen: SharedToolCall = {
      toolName: lease.toolName,
      task: lease.task,
      instanceId: lease.instanceId,
      signal: execution.signal,
      report: (text) => execution.report(text),
      remainingMs: () => Math.max(0, ends - now()),
    };
    this.#executions.add(execution);
    lease.calls += 1;
    shared.calls += 1;
    if (key !== undefined) this.#kept.begin(key, digest, execution);
    const { taskId = "", runId = "", attempt = 0 } = lease.task ?? {};
    const { traceparent, tracestate } = call.trace.traceparent ? call.trace : current();
    serving({ ...current(), taskId, runId, attempt, traceparent, tracestate, deadline: ends }, () =>
      otelContext.with(within, () => execution.start(async () => shared.tool.execute(args, seen))),
    );
    return { execution, limitMs };
  }

  #ended(execution: Execution, shared: Shared, key: string | undefined, span: Span): void {
    const { result, error, name, tookMs } = execution;
    const ok = result?.status === ToolStatus.SUCCESS;
    const reason = error?.reason ?? result?.metadata["reason"] ?? "";
    log("info", `shared tool ${name}: ${ok ? "success" : `failed (${reason})`} in ${(tookMs / 1000).toFixed(3)} s`);
    if (!ok) failSpan(span, reason || "UNKNOWN", error?.message ?? result?.errorMessage ?? "");
    span.end();
    if (result !== undefined) shared.figures.count(tookMs, ok);
    if (key === undefined) return;
    if (!ok && shared.tool.tool.idempotent) this.#kept.forget(key); // a further call does no harm
    else this.#kept.keep(key, result ?? unknownOutcome());
  }

  #revoke(lease: Lease, by: string): void {
    this.#leases.remove(lease.leaseId);
    log("info", `lease ${lease.leaseId.slice(0, 8)} of tool ${lease.toolName} revoked by the ${by}`);
    for (const execution of this.#executions) if (execution.leaseId === lease.leaseId) execution.end(revoked());
  }

  #shared(toolName: string): Shared {
    const shared = this.#tools.get(toolName);
    if (shared !== undefined) return shared;
    const tool = toolName.slice(0, 80);
    throw new NotFound(`this instance shares no tool '${tool}'`, { metadata: { tool } });
  }

  #checkOpen(): void {
    if (!this.#isDraining) return;
    throw new Unavailable("the owner of the tool is stopping", { reason: "DRAINING", metadata: { [BEGUN]: "false" } });
  }

  #checkRoom(lease: Lease, shared: Shared): void {
    for (const [calls, most, whose] of [
      [lease.calls, MAX_CALLS_OF_LEASE, "this lease"],
      [shared.calls, shared.tool.maxConcurrent, `tool ${lease.toolName}`],
      [this.#executions.size, MAX_CALLS, "the tools of this instance"],
    ] as const) {
      if (calls >= most) throw new ResourceExhausted(`${most} calls of ${whose} are in progress`, { retryDelayMs: BUSY_DELAY_MS });
    }
  }
}

function revoked(): ArchonError {
  return new NotFound("the lease of the tool was revoked", { reason: "LEASE_EXPIRED", metadata: { [BEGUN]: "true" } });
}

function limitOf(timeoutMs: number | undefined, toolMs: number): number {
  if (timeoutMs !== undefined && !(timeoutMs > 0)) throw invalidField("timeout", "must be above 0 s");
  const left = remainingMs();
  const limits = [timeoutMs ?? CALL_MS, toolMs, MAX_CALL_MS];
  if (left !== undefined) limits.push(Math.max(0, left - ANSWER_MARGIN));
  return Math.min(...limits);
}

/** Keys belong to a task, whichever of its attempts and leases they come with; without a task, to the lease. */
function keptKey(lease: Lease, key: string): string {
  const { task, toolName, leaseId } = lease;
  return JSON.stringify(task === undefined ? [toolName, leaseId, "", key] : [toolName, task.runId, task.taskId, key]);
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each !== "object" || each === null || Array.isArray(each)) return each;
    return Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)));
  });
}

function unknownOutcome(): ToolResult {
  const message = "an earlier call with this idempotency key was ended before its result was known: it may have acted";
  return failureToProto(new Unavailable(message), 0);
}

function startCallSpan(lease: Lease, trace: TraceContext): ReturnType<typeof startServing> {
  const { task, toolName } = lease;
  return startServing(`${names.EXECUTE_TOOL} ${toolName}`, trace.traceparent ? trace : current(), {
    [names.OPERATION_NAME]: names.EXECUTE_TOOL,
    [names.TOOL_NAME]: toolName,
    ...(task && { [names.RUN_ID]: task.runId, [names.TASK_ID]: task.taskId, [names.TASK_ATTEMPT]: task.attempt }),
  });
}
