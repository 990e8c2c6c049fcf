/** Client of the orchestrator: submit, watch and control runs. */
import { randomUUID } from "node:crypto";
import { Decision as DecisionEnum } from "./api/archon/api/common/v1/question_pb.js";
import type { Plan } from "./api/archon/api/common/v1/plan_pb.js";
import { OrchestratorService } from "./api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { TaskState as TaskStateEnum } from "./api/archon/api/common/v1/common_pb.js";
import type { RunRecord } from "./api/archon/api/orchestrator/v1/run_pb.js";
import type { Decision } from "./agent/question.js";
import { Channel, type CallOptions, type ChannelSettings } from "./channel.js";
import { ConverseStream } from "./converseStream.js";
import { ArchonError, DeadlineExceeded, InvalidArgument, type Code } from "./errors.js";
import { pause } from "./registry/retry.js";
import { RunView } from "./runView/run.js";
import { ORCHESTRATOR } from "./security/peer.js";
import { submitRequest, type SubmitOptions } from "./submission.js";
import { checkedContent, type Content } from "./types/part.js";
import { questionFromMessage, Run, RunEvent, taskFromMessage, type RunQuestion, type RunTask } from "./types/run.js";
import type { TaskState } from "./types/usage.js";
import { durationOf, toInt64 } from "./wire.js";

const CALL_MS = 10_000;
const PLAN_MS = 60_000;
const EDIT_MS = 15_000;
const CANCEL_MS = 2_000;

/** Milliseconds without an orchestrator after which a watch gives up. */
const WATCH_PATIENCE_MS = 60_000;

/** Options of a watch. */
export interface WatchOptions {
  /** The event after which to start; 0: with the first. */
  readonly afterSeq?: number;
  /** Leaves transient events out. */
  readonly durableOnly?: boolean;
  /** How long an orchestrator may be unreachable in a row; 60 s by default. */
  readonly patienceMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** What PlanRun returns: the tasks that a submit would create, and with the strategy `plan` the plan. */
export interface PlannedRun {
  readonly tasks: readonly RunTask[];
  readonly plan: Plan | undefined;
}

/** A run that was submitted. */
export class RunHandle {
  constructor(
    readonly client: Client,
    /** The run as the submit has returned it. */
    public run: Run,
  ) {}

  get runId(): string {
    return this.run.runId;
  }

  /** Yields the run's events, as `Client.watch`. */
  events(options: WatchOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    return this.client.watch(this.runId, options);
  }

  /** Yields the run's view after each event, until it has ended: one object, which the next event changes. */
  async *views(options: Pick<WatchOptions, "signal"> = {}): AsyncGenerator<RunView, void, undefined> {
    const view = new RunView();
    for await (const event of this.events(options)) {
      view.apply(event);
      yield view;
    }
  }

  /** Waits until the run has ended, in whatever state. Throws DeadlineExceeded after `timeoutMs`. */
  async result(options: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined } = {}): Promise<Run> {
    this.run = await this.client.wait(this.runId, options);
    return this.run;
  }

  /** Requests that the run be cancelled. */
  cancel(reason = ""): Promise<Run> {
    return this.client.cancel(this.runId, reason);
  }
}

/** A connection to an orchestrator at `host:port`, which is made at the first call. Close it, or use it with `await using`. */
export class Client {
  readonly #channel: Channel;

  constructor(target: string, settings: ChannelSettings = {}) {
    this.#channel = new Channel(target, ORCHESTRATOR, settings);
  }

  /** Closes the connection. Idempotent. */
  close(): void {
    this.#channel.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  /** Submits a run, which is durable when this returns. With `waitMs` the call waits so long for its end. */
  async submit(goal: Content, options: SubmitOptions & CallOptions & { waitMs?: number } = {}): Promise<RunHandle> {
    const { waitMs, timeoutMs, signal } = options;
    const request = submitRequest(goal, options);
    if (waitMs !== undefined) request.wait = durationOf(waitMs);
    const call = { signal, timeoutMs: timeoutMs ?? CALL_MS + (waitMs ?? 0) };
    const response = await this.#channel.unary(OrchestratorService.method.submitRun, request, call);
    return new RunHandle(this, runOf(response.run));
  }

  /**
   * Submits a run, waits for its end and returns the text of its answer. Throws the run's failure. A run that is not waited for
   * to its end is cancelled.
   */
  async run(goal: Content, options: SubmitOptions & { timeoutMs?: number | undefined; signal?: AbortSignal | undefined } = {}): Promise<string> {
    const { timeoutMs, signal } = options;
    const handle = await this.submit(goal, { ...options, timeoutMs: undefined });
    let run: Run;
    try {
      run = await handle.result({ timeoutMs, signal });
    } catch (error) {
      if (error instanceof ArchonError && (error.code === "CANCELLED" || error.code === "DEADLINE_EXCEEDED")) {
        const reason = "its caller was cancelled";
        await this.cancel(handle.runId, reason, { timeoutMs: CANCEL_MS }).catch(() => undefined);
      }
      throw error;
    }
    if (run.state === "COMPLETED") return run.text;
    throw run.failure ?? new ArchonError(`run ${run.runId} has ended ${run.state}`, { code: "UNKNOWN" });
  }

  /** Waits until a run has ended, in whatever state. Throws DeadlineExceeded after `timeoutMs`. */
  async wait(runId: string, options: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined } = {}): Promise<Run> {
    const { timeoutMs, signal } = options;
    const late = new AbortController();
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => late.abort(), timeoutMs);
    const either = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
    try {
      for await (const event of this.watch(runId, { durableOnly: true, signal: either })) void event;
      return await this.get(runId, { signal: either });
    } catch (error) {
      if (!late.signal.aborted || signal?.aborted) throw error;
      throw new DeadlineExceeded(`run ${runId} has not ended within ${(timeoutMs ?? 0) / 1000} s`);
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Yields every durable event once and in order, and transient events as they come; ends after the run's last event. If the
   * orchestrator is unreachable it reconnects and resumes after the last event.
   */
  async *watch(runId: string, options: WatchOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    const { durableOnly = false, patienceMs = WATCH_PATIENCE_MS, signal } = options;
    let afterSeq = toInt64(options.afterSeq ?? 0, "afterSeq");
    let heard = performance.now();
    let hasExpired = false;
    const transient: readonly Code[] = ["UNAVAILABLE", "ABORTED"];
    while (true) {
      try {
        const request = { runId, afterSeq, durableOnly };
        for await (const batch of this.#channel.serverStream(OrchestratorService.method.watchRun, request, { signal })) {
          [heard, hasExpired] = [performance.now(), false];
          for (const event of batch.events) {
            if (event.seq > 0n) afterSeq = event.seq;
            yield new RunEvent(event);
          }
        }
        return;
      } catch (error) {
        if (!(error instanceof ArchonError)) throw error;
        if (error.reason === "TOKEN_EXPIRED" && !hasExpired) hasExpired = true;
        else if (!transient.includes(error.code) || performance.now() - heard > patienceMs) throw error;
      }
      await pause(100 + Math.random() * 300, signal);
    }
  }

  /** Opens a stream for many runs. Close it, or use it with `await using`. */
  converse(options: { signal?: AbortSignal } = {}): ConverseStream {
    return new ConverseStream(this.#channel.duplex(OrchestratorService.method.converse, options));
  }

  /** Returns the current state of a run. */
  async get(runId: string, call: CallOptions = {}): Promise<Run> {
    return runOf((await this.#channel.unary(OrchestratorService.method.getRun, { runId }, limited(call))).run);
  }

  /** Returns the newest runs first, at most `limit`, without tasks and answers. */
  async listRuns(
    options: CallOptions & { limit?: number; sessionId?: string; states?: readonly TaskState[] } = {},
  ): Promise<Run[]> {
    const { limit = 100, sessionId = "", states = [], ...call } = options;
    const runs: Run[] = [];
    for (let pageToken = ""; runs.length < limit; ) {
      const request = {
        pageSize: Math.min(1000, limit - runs.length),
        pageToken,
        sessionId,
        states: states.map((state) => TaskStateEnum[state]),
      };
      const page = await this.#channel.unary(OrchestratorService.method.listRuns, request, limited(call));
      runs.push(...page.runs.map(runOf));
      pageToken = page.nextPageToken;
      if (!pageToken) break;
    }
    return runs;
  }

  /** Yields the recorded model and tool calls of a run, in order. */
  async *records(runId: string, { role = "", ...call }: CallOptions & { role?: string } = {}): AsyncGenerator<RunRecord> {
    for (let pageToken = ""; ; ) {
      const request = { runId, role, pageToken };
      const page = await this.#channel.unary(OrchestratorService.method.listRunRecords, request, limited(call));
      yield* page.records;
      pageToken = page.nextPageToken;
      if (!pageToken) return;
    }
  }

  /** Requests that a run be cancelled; it has ended once its state is final. */
  async cancel(runId: string, reason = "", call: CallOptions = {}): Promise<Run> {
    return runOf((await this.#channel.unary(OrchestratorService.method.cancelRun, { runId, reason }, limited(call))).run);
  }

  /** Pauses a run: no further tasks are dispatched until `resume`, and the run's clock stops. */
  async pause(runId: string, call: CallOptions = {}): Promise<Run> {
    return runOf((await this.#channel.unary(OrchestratorService.method.pauseRun, { runId }, limited(call))).run);
  }

  /** Resumes a paused run. */
  async resume(runId: string, call: CallOptions = {}): Promise<Run> {
    return runOf((await this.#channel.unary(OrchestratorService.method.resumeRun, { runId }, limited(call))).run);
  }

  /** Returns the open questions of all runs to people. */
  async listQuestions({ limit = 1000, ...call }: CallOptions & { limit?: number } = {}): Promise<RunQuestion[]> {
    const questions: RunQuestion[] = [];
    for (let pageToken = ""; questions.length < limit; ) {
      const request = { pageSize: Math.min(1000, limit - questions.length), pageToken };
      const page = await this.#channel.unary(OrchestratorService.method.listQuestions, request, limited(call));
      questions.push(...page.questions.map(questionFromMessage));
      pageToken = page.nextPageToken;
      if (!pageToken) break;
    }
    return questions;
  }

  /** Answers a question of a run. An approval takes a decision, with the answer as its reason or the modification. */
  async respond(
    runId: string,
    inputId: string,
    answer: Content = "",
    options: CallOptions & { decision?: Decision; requestId?: string } = {},
  ): Promise<Run> {
    const { decision = "", requestId = "", ...call } = options;
    if (!["", "approve", "reject", "modify"].includes(decision)) {
      throw new InvalidArgument(`unknown decision '${decision}'; use approve, reject or modify`);
    }
    const number = DecisionEnum[(decision || "UNSPECIFIED").toUpperCase() as keyof typeof DecisionEnum];
    const parts = answer.length > 0 || !decision ? checkedContent(answer, "the answer") : [];
    const request = { runId, inputId, parts, decision: number, requestId };
    return runOf((await this.#channel.unary(OrchestratorService.method.respond, request, limited(call))).run);
  }

  /** Submits a new run with the settings of another, which reuses the answers of its completed tasks up to an event. */
  async fork(
    runId: string,
    options: CallOptions & { afterSeq?: number; goal?: Content; requestId?: string } = {},
  ): Promise<RunHandle> {
    const { afterSeq = 0, goal, requestId = "", ...call } = options;
    const request = {
      requestId: requestId || randomUUID(),
      runId,
      afterSeq: toInt64(afterSeq, "afterSeq"),
      goal: goal === undefined ? [] : checkedContent(goal, "the goal"),
    };
    const response = await this.#channel.unary(OrchestratorService.method.forkRun, request, limited(call));
    return new RunHandle(this, runOf(response.run));
  }

  /**
   * Returns the plan that an instance of the planner makes for a goal, and its tasks; nothing is executed. With another strategy
   * only the tasks that a submit would create.
   */
  async plan(goal: Content, options: SubmitOptions & CallOptions = {}): Promise<PlannedRun> {
    const { timeoutMs = PLAN_MS, signal, strategy = "plan" } = options;
    const request = { submit: submitRequest(goal, { ...options, strategy }) };
    const response = await this.#channel.unary(OrchestratorService.method.planRun, request, { timeoutMs, signal });
    return { tasks: response.tasks.map(taskFromMessage), plan: response.plan };
  }

  /** Replaces the steps of a run's plan that have not begun. `expectedSeq` is the `changeSeq` of the plan that was edited. */
  async editPlan(runId: string, planJson: string, expectedSeq: number, call: CallOptions = {}): Promise<Run> {
    const request = { runId, planJson, expectedSeq: toInt64(expectedSeq, "expectedSeq") };
    const options = { ...call, timeoutMs: call.timeoutMs ?? EDIT_MS };
    return runOf((await this.#channel.unary(OrchestratorService.method.editPlan, request, options)).run);
  }

  /** Rates a run that has ended, from 1 (bad) to 5 (good) stars. */
  async rate(runId: string, stars: number, comment = "", call: CallOptions = {}): Promise<void> {
    await this.#channel.unary(OrchestratorService.method.rateRun, { runId, stars, comment }, limited(call));
  }
}

function limited(call: CallOptions): CallOptions {
  return { ...call, timeoutMs: call.timeoutMs ?? CALL_MS };
}

function runOf(message: Run["proto"] | undefined): Run {
  if (message !== undefined) return new Run(message);
  throw new ArchonError("the orchestrator has answered without a run", { code: "UNKNOWN" });
}
