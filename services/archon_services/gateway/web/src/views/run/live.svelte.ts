/** A run while it is shown: its events, folded by the SDK as they come, and its state as the orchestrator says it. */
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { GetRunResponseSchema, RunView as Fields } from "@api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import type { Run, RunEvent as EventMessage } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { RunView } from "@sdk/runView/run.js";
import { RunEvent } from "@sdk/types/run.js";
import { orchestrator } from "../../api/clients.js";
import { watchEvents } from "../../api/events.js";
import { isFinal } from "../../parts/format.js";

const FRAME_MS = 100;
const READ_MS = 1_000;
const LARGE_READ_MS = 5_000;
const LARGE_TASKS = 200;
/** How long events may be behind the run after a sleep. */
const LATE_MS = 3_000;

/** Where a run is read from: without its tasks, which the events have. */
export interface Source {
  readonly events: string;
  read(): Promise<Run | undefined>;
}

export function ownRun(runId: string): Source {
  return { events: `/events/runs/${encodeURIComponent(runId)}`, read: async () => (await orchestrator.getRun({ runId, view: Fields.BASIC })).run };
}

/** The run of a link, for a reader without a login. */
export function sharedRun(link: string): Source {
  const path = `/shared/${encodeURIComponent(link)}`;
  const read = async (): Promise<Run | undefined> => {
    const response = await fetch(`${path}?view=basic`, { headers: { accept: "application/json" } });
    const answer = (await response.json()) as JsonValue & { message?: string };
    if (!response.ok) throw new Error(answer.message ?? "This link has expired, was revoked, or never existed.");
    return fromJson(GetRunResponseSchema, answer, { ignoreUnknownFields: true }).run;
  };
  return { events: `${path}/events`, read };
}

export class LiveRun {
  readonly view = new RunView();
  /** The durable events, in order: the one with number n is the one at n - 1. */
  readonly events: EventMessage[] = [];
  /** Counts the times at which the fold has changed: what shows it reads this, too. */
  version = $state(0);
  run = $state.raw<Run | undefined>(undefined);
  problem = $state.raw<unknown>(undefined);
  connected = $state(true);
  /** Why no events come, although the run goes on. */
  failure = $state("");
  #frame: ReturnType<typeof setTimeout> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #late: ReturnType<typeof setTimeout> | undefined;
  #stop: () => void = () => undefined;
  #lastRead = 0;
  #seenSeq = 0;
  #stopped = false;

  constructor(private readonly source: Source) {}

  /** Watches until the returned function is called. */
  start(): () => void {
    // A large run is shown before its events come: they keep the browser and the gateway busy.
    void this.read().then(() => {
      if (!this.#stopped) this.#watch();
    });
    const wake = (): void => {
      if (!document.hidden) void this.#wake();
    };
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("online", wake);
    return () => {
      this.#stopped = true;
      document.removeEventListener("visibilitychange", wake);
      window.removeEventListener("online", wake);
      this.#stop();
      clearTimeout(this.#frame);
      clearTimeout(this.#timer);
      clearTimeout(this.#late);
    };
  }

  #watch(): void {
    const after = this.view.lastSeq > 0 ? `?after=${this.view.lastSeq}` : "";
    this.#stop = watchEvents(this.source.events + after, {
      event: (proto) => this.#apply(proto),
      connected: (yes) => (this.connected = yes),
      end: () => {
        this.connected = true;
        void this.read();
      },
      failure: (message) => (this.failure = message),
    });
  }

  /** After a sleep of the machine a connection can be dead that looks alive: if the run is ahead of the events, another begins. */
  async #wake(): Promise<void> {
    await this.read();
    clearTimeout(this.#late);
    this.#late = setTimeout(() => {
      if (this.#stopped || this.failure !== "" || Number(this.run?.lastSeq ?? 0n) <= this.view.lastSeq) return;
      this.#stop();
      this.#watch();
    }, LATE_MS);
  }

  /** Reads the run as the orchestrator has it now. */
  async read(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastRead = Date.now();
    this.#seenSeq = this.view.lastSeq;
    try {
      const run = await this.source.read();
      if (this.#stopped) return;
      if ((run?.lastSeq ?? 0n) >= (this.run?.lastSeq ?? 0n)) this.run = run; // an answer may overtake another
      this.problem = undefined;
    } catch (thrown) {
      if (!this.#stopped && this.run === undefined) this.problem = thrown;
    }
  }

  #apply(proto: EventMessage): void {
    const seq = Number(proto.seq);
    if (seq > 0) {
      if (seq <= this.view.lastSeq) return; // after a reconnect
      this.events.push(proto);
    }
    this.view.apply(new RunEvent(proto));
    this.#frame ??= setTimeout(() => this.#show(), FRAME_MS);
  }

  #show(): void {
    this.#frame = undefined;
    this.version++;
    if (this.view.lastSeq === this.#seenSeq || this.#timer !== undefined || this.#stopped) return;
    const pause = this.view.tasks.size > LARGE_TASKS ? LARGE_READ_MS : READ_MS;
    const ended = this.view.ended > 0 && this.run !== undefined && !isFinal(this.run.state);
    this.#timer = setTimeout(() => void this.read(), ended ? 0 : Math.max(0, this.#lastRead + pause - Date.now()));
  }
}
