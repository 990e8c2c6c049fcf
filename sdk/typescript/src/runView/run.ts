/** The view of a run, folded from its events. Times are in milliseconds since the epoch; 0 if the event has not occurred. */
import type { Plan } from "../api/archon/api/common/v1/plan_pb.js";
import { Strategy as StrategyEnum, type RunEvent as EventMessage } from "../api/archon/api/orchestrator/v1/run_pb.js";
import type { ArchonError } from "../errors.js";
import { textOf } from "../types/part.js";
import type { RunEvent } from "../types/run.js";
import { addUsage, isFinal, stateName, type TaskState, type Usage } from "../types/usage.js";
import { enumName, toMs } from "../wire.js";
import { Messages } from "./message.js";
import type { QuestionView } from "./question.js";
import { TaskView, type Wait } from "./task.js";
import { applyToTask, endTask, failureOf } from "./taskEvents.js";

/** A pause of a run; `ended` is 0 if the run was not resumed. */
export interface Pause {
  readonly started: number;
  ended: number;
}

/** A claim of a run under a new epoch; `previous` is the owner before. */
export interface Claim {
  readonly time: number;
  readonly owner: string;
  readonly epoch: number;
  readonly previous: string;
}

/** A run as its events tell it: apply them in order, from the first one on. It states facts and has no clock of its own. */
export class RunView {
  runId = "";
  strategy = "";
  /** WORKING from the first dispatch on, INPUT_REQUIRED while a question is open. */
  state: TaskState = "SUBMITTED";
  started = 0;
  ended = 0;
  failure: ArchonError | undefined;
  cancelRequested = 0;
  cancelReason = "";
  /** Pairs of roles: tasks of the second one wait for the first one. */
  edges: (readonly [upstream: string, downstream: string])[] = [];
  /** The tasks by id, in the order of their creation. */
  readonly tasks = new Map<string, TaskView>();
  /** The plan in force. */
  plan: Plan | undefined;
  readonly messages = new Messages();
  readonly pauses: Pause[] = [];
  /** Id of the owner's process. */
  owner = "";
  readonly claims: Claim[] = [];
  /** Sequence number of the last durable event that was applied. */
  lastSeq = 0;
  readonly #asking = new Map<string, TaskView>();
  readonly #answers = new Map<number, string>();
  #answerSeqs: readonly bigint[] = [];
  #givenPlanTask = "";
  #isDispatched = false;
  #stoppedFor = 0;
  #stoppedSince = 0;

  /** Folds one event. One that was applied before, or is of an unknown kind, changes nothing. */
  apply(event: RunEvent): void {
    const { proto, seq } = event;
    if (seq > 0 && seq <= this.lastSeq) return;
    this.lastSeq = seq || this.lastSeq;
    if (proto.event.case === undefined) return;
    const time = toMs(proto.time);
    this.runId = proto.runId || this.runId;
    this.#applyToRun(proto, time);
    const taskId = proto.task?.taskId ?? "";
    if (taskId && taskId !== this.#givenPlanTask) {
      const task = this.#applyToTask(taskId, proto, time);
      this.messages.apply(proto);
      if (proto.event.case === "result") {
        const { messagesRead, output } = proto.event.value;
        this.#answers.set(seq, textOf(output));
        if (messagesRead > 0n) this.messages.noteRead(taskId, task.role, task.stepId, Number(messagesRead));
      }
    }
    if (seq > 0) this.#updateClock(time);
  }

  /** Whether the run is paused: no task is dispatched until it is resumed. */
  get paused(): boolean {
    return this.ended === 0 && this.pauses.at(-1)?.ended === 0;
  }

  /** The text of the answers, once the run has completed. */
  get output(): string {
    return this.#answerSeqs.map((seq) => this.#answers.get(Number(seq)) ?? "").join("\n\n");
  }

  /** The open questions, oldest first. */
  get questions(): QuestionView[] {
    return [...this.#asking.values()].flatMap((task) => task.question ?? []);
  }

  /** The usage of all attempts, as far as events have it. */
  get usage(): Usage {
    return [...this.tasks.values()].reduce<Usage>((sum, task) => addUsage(sum, task.usage), {});
  }

  /** Returns for how many milliseconds the run's clock has been stopped by pauses and questions. */
  stoppedFor(time: number): number {
    return this.#stoppedFor + (this.#stoppedSince > 0 ? Math.max(0, time - this.#stoppedSince) : 0);
  }

  /** Returns the milliseconds on the run's clock. */
  elapsed(time: number): number {
    return this.started > 0 ? Math.max(0, (this.ended || time) - this.started - this.stoppedFor(time)) : 0;
  }

  /** Returns the tasks that must complete before a task: the named ones, else the tasks of the roles upstream. */
  predecessors(task: TaskView): TaskView[] {
    if (task.predecessors.length > 0) return task.predecessors.flatMap((taskId) => this.tasks.get(taskId) ?? []);
    if (task.parentTaskId || task.stepId) return [];
    const roots = new Map<string, TaskView>();
    for (const other of this.tasks.values()) if (!other.parentTaskId && !other.stepId) roots.set(other.role, other);
    return this.edges.flatMap(([upstream, downstream]) => (downstream === task.role ? (roots.get(upstream) ?? []) : []));
  }

  /** Returns why a task waits; undefined if it waits for nothing. */
  waitingFor(task: TaskView): Wait | undefined {
    if (this.ended > 0 || task.final) return undefined;
    if (task.state === "INPUT_REQUIRED") return { kind: "person", names: [] };
    const isSubmitted = task.state === "SUBMITTED";
    const missing = this.predecessors(task).filter((other) => other.state !== "COMPLETED");
    const names = isSubmitted ? missing.map((other) => other.label) : this.#delegates(task);
    if (names.length > 0) return { kind: "tasks", names };
    return isSubmitted ? { kind: this.paused ? "resume" : "instance", names: [] } : undefined;
  }

  #delegates(task: TaskView): string[] {
    const pending = (task.attempt?.delegations ?? []).filter((each) => each.cancelled === 0);
    const children = pending.flatMap((each) => this.tasks.get(each.childTaskId) ?? []);
    return [...new Set(children.filter((child) => !child.final).map((child) => child.role))];
  }

  #applyToRun({ runId, event }: EventMessage, time: number): void {
    switch (event.case) {
      case "submitted": {
        const { owner, strategy, withoutPlanner, edges } = event.value;
        [this.started, this.owner] = [time, owner];
        this.strategy = enumName(StrategyEnum as unknown as Record<number, string>, strategy);
        this.#givenPlanTask = withoutPlanner ? `${runId}.1` : "";
        if (this.strategy !== "agent") this.edges = edges.map(({ upstream, downstream }) => [upstream, downstream] as const);
        break;
      }
      case "claimed": {
        const { owner, epoch } = event.value;
        this.claims.push({ time, owner, epoch: Number(epoch), previous: this.owner });
        this.owner = owner;
        break;
      }
      case "cancelRequested":
        [this.cancelRequested, this.cancelReason] = [time, event.value.reason];
        break;
      case "paused":
        if (!this.paused) this.pauses.push({ started: time, ended: 0 });
        break;
      case "resumed": {
        const last = this.pauses.at(-1);
        if (this.paused && last !== undefined) last.ended = time;
        break;
      }
      case "planned":
        this.plan = event.value.plan;
        break;
      case "runState": {
        const state = stateName(event.value.state);
        if (!isFinal(state)) break;
        this.#answerSeqs = event.value.answerSeqs;
        [this.state, this.failure, this.ended] = [state, failureOf(event.value.failure), time];
        this.#asking.clear();
        // No event states the end of tasks that the end of the run interrupts.
        for (const task of this.tasks.values()) if (!task.final) endTask(task, time, "CANCELED");
        break;
      }
      default:
        break;
    }
  }

  #applyToTask(taskId: string, event: EventMessage, time: number): TaskView {
    let task = this.tasks.get(taskId);
    if (task === undefined) {
      task = this.#newTask(taskId, event, time);
      this.tasks.set(taskId, task);
    }
    applyToTask(task, event, time);
    if (event.event.case === "dispatched") this.#isDispatched = true;
    if (task.question !== undefined) this.#asking.set(taskId, task);
    else this.#asking.delete(taskId);
    return task;
  }

  #newTask(taskId: string, { event }: EventMessage, time: number): TaskView {
    const role = event.value !== undefined && "role" in event.value ? event.value.role : "";
    const task = new TaskView(taskId, role, time);
    if (event.case !== "taskState") return task;
    const { parentTaskId, stepId, predecessors, align } = event.value;
    [task.parentTaskId, task.stepId, task.predecessors] = [parentTaskId, stepId, predecessors];
    if (!stepId && this.strategy === "plan" && !parentTaskId) {
      const revision = this.plan?.revision ?? 0;
      const made = align ? `check of plan ${revision || 1}` : `plan ${revision + 1}`;
      task.purpose = predecessors.length > 0 ? "answer" : made;
    }
    return task;
  }

  #updateClock(time: number): void {
    if (this.ended === 0) {
      const started = this.#isDispatched ? "WORKING" : "SUBMITTED";
      this.state = this.#asking.size > 0 ? "INPUT_REQUIRED" : started;
    }
    const isStopped = this.ended === 0 && (this.paused || this.#asking.size > 0);
    if (isStopped && this.#stoppedSince === 0) {
      this.#stoppedSince = time;
    } else if (this.#stoppedSince > 0 && !isStopped) {
      this.#stoppedFor = this.stoppedFor(time);
      this.#stoppedSince = 0;
    }
  }
}
