/** What an attempt spends: its usage, its slice of the budget, and the records of its calls. */
import { create } from "@bufbuild/protobuf";
import { ProgressSchema, RecordKind, type CallRecord } from "../api/archon/api/agent/v1/agent_pb.js";
import { TaskState, type Budget as BudgetMessage } from "../api/archon/api/common/v1/common_pb.js";
import { invalidField, ResourceExhausted } from "../errors.js";
import { fromFailure } from "../status.js";
import { addUsage, usageToProto, type Usage } from "../types/usage.js";
import { AttemptBudget } from "./budget.js";
import type { Link } from "./link.js";
import { callRecord, recordMode, redacted } from "./records.js";

/** A part of the run's budget. */
export interface Reservation {
  readonly tokens?: number;
  readonly costMicroUsd?: number;
  /** 1 by default. */
  readonly modelCalls?: number;
}

/** A call of a model or a tool, as it was made. */
export interface CallMade {
  /** In milliseconds since the Unix epoch; by default the time of the call less its duration. */
  readonly startedMs?: number;
  readonly durationMs?: number;
  /** Contents are without what must not be recorded already. */
  readonly redacted?: boolean;
}

/** A call of a model; request and response are JSON values. */
export interface ModelCall extends CallMade {
  readonly request?: unknown;
  readonly response?: unknown;
  readonly usage?: Usage;
  readonly retried?: boolean;
}

/** A call of a tool; arguments and result are JSON values. */
export interface ToolCall extends CallMade {
  readonly arguments?: unknown;
  readonly result?: unknown;
}

/** The account of one attempt. */
export class Account {
  usage: Usage = {};
  readonly #budget: AttemptBudget;
  #records: CallRecord[] = [];

  constructor(
    slice: BudgetMessage | undefined,
    readonly link: Link,
    readonly role: string,
  ) {
    this.#budget = new AttemptBudget(slice);
  }

  /** Reserves a part of the budget beyond the usage so far. Throws ResourceExhausted / BUDGET_EXHAUSTED. */
  async reserve({ tokens = 0, costMicroUsd = 0, modelCalls = 1 }: Reservation): Promise<void> {
    for (const [name, value] of Object.entries({ tokens, costMicroUsd, modelCalls })) {
      if (!(value >= 0)) throw invalidField(name, `is ${value}, and must not be negative`);
    }
    const wanted: [number, number, number] = [tokens, costMicroUsd, modelCalls];
    while (true) {
      const missing = this.#budget.missing(this.usage, wanted);
      if (missing === undefined) break;
      const grant = await this.link.reserve(missing);
      if (grant.failure !== undefined) throw fromFailure(grant.failure);
      if (grant.budget === undefined) {
        const needed = `${tokens} tokens, ${costMicroUsd} micro-USD, ${modelCalls} calls needed`;
        throw new ResourceExhausted(`insufficient budget: ${needed}`, {
          reason: "BUDGET_EXHAUSTED",
          metadata: { role: this.role },
        });
      }
      this.#budget.add(grant.budget);
    }
    this.#budget.reserve(wanted);
  }

  /** Releases the oldest reservation. */
  settle(): void {
    this.#budget.settle();
  }

  /** Counts usage. */
  add(usage: Usage): void {
    usageToProto(usage); // throws if it cannot be sent
    this.usage = addUsage(this.usage, usage);
    this.sendUsage();
  }

  /** Records a model call, and counts its usage. */
  recordModelCall(model: string, { request, response, usage = {}, retried = false, ...call }: ModelCall): void {
    if (!retried) this.settle();
    this.add({ ...usage, modelCalls: 1, toolCalls: 0 });
    const record = this.#record(RecordKind.MODEL, model, request, response, call);
    if (record !== undefined) record.usage = usageToProto(usage);
  }

  /** Records a tool call. */
  recordToolCall(tool: string, { arguments: given, result, ...call }: ToolCall): void {
    this.#record(RecordKind.TOOL, tool, given, result, call);
  }

  /** Returns the calls recorded since the last time. */
  takeRecords(): CallRecord[] {
    const records = this.#records;
    this.#records = [];
    return records;
  }

  /** Sends the usage so far, if the budget is limited. */
  sendUsage(): void {
    if (!this.#budget.limited || Object.keys(this.usage).length === 0) return;
    this.link.progress(create(ProgressSchema, { state: TaskState.WORKING, usage: usageToProto(this.usage) }));
  }

  #record(kind: RecordKind, target: string, request: unknown, response: unknown, call: CallMade): CallRecord | undefined {
    const mode = recordMode();
    if (mode === "off") return undefined;
    const { durationMs = 0, startedMs = Date.now() - durationMs } = call;
    const hides = mode === "redacted" && call.redacted !== true;
    const [asked, given] = hides ? [redacted(request), redacted(response)] : [request, response];
    const record = callRecord(kind, target, asked, given, startedMs, durationMs);
    this.#records.push(record);
    this.link.recorded();
    return record;
  }
}
