/** One message of a chat and its answer: a run. It goes on when the page is closed. */
import type { Run } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "../../api/clients.js";
import { watchRun } from "../../api/events.js";
import { isFinal } from "../../parts/format.js";
import { LiveAnswer, type Piece } from "./answer.js";
import { recordedSteps } from "./records.js";

export class Turn {
  readonly runId: string;
  run = $state.raw<Run | undefined>();
  /** The steps before the answer, and the answer while it is generated. */
  steps = $state.raw<readonly Piece[]>([]);
  draft = $state("");
  /** Whether the events come: false while the connection is lost. */
  connected = $state(true);
  problem = $state.raw<unknown>(undefined);
  /** Whether the steps of a run that had ended have been read. */
  hasSteps = $state(false);
  readonly #answer = new LiveAnswer();
  #stop: (() => void) | undefined;
  #frame = 0;
  #reading: Promise<void> | undefined;
  #again = false;

  constructor(runId: string, run?: Run) {
    this.runId = runId;
    this.run = run;
  }

  get ended(): boolean {
    return this.run !== undefined && isFinal(this.run.state);
  }

  /** Reads the run, and follows it if it has not ended. */
  async open(): Promise<void> {
    await this.read();
    if (this.ended || this.#stop || this.problem) return;
    await this.loadSteps(); // those that were before this page
    this.hasSteps = true;
    this.#stop = watchRun(this.runId, {
      event: (event) => {
        const before = this.#answer.questionsChanged;
        this.#answer.apply(event);
        if (this.#answer.questionsChanged !== before) void this.read();
        this.#show();
      },
      connected: (yes) => (this.connected = yes),
      end: () => void this.#ended(),
      failure: () => void this.#ended(),
    });
  }

  close(): void {
    this.#stop?.();
    this.#stop = undefined;
    cancelAnimationFrame(this.#frame);
  }

  /** Reads the run again; of several requests at the same time the last one counts. */
  async read(): Promise<void> {
    this.#again = true;
    this.#reading ??= (async () => {
      while (this.#again) {
        this.#again = false;
        try {
          this.run = (await orchestrator.getRun({ runId: this.runId })).run;
          this.problem = undefined;
        } catch (thrown) {
          this.problem = thrown;
        }
      }
    })().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  /** Reads the recorded steps. A role that records none has none. */
  async loadSteps(): Promise<void> {
    try {
      const steps = await recordedSteps(this.runId);
      for (const step of steps) {
        if (step.kind === "tool") this.#answer.addRecorded(step);
        else this.#answer.pieces.push(step);
      }
      this.#show();
    } catch {
      // Details that retention has removed: the answer is there.
    }
    this.hasSteps = true;
  }

  async #ended(): Promise<void> {
    this.close();
    this.connected = true;
    await this.read();
    this.#publish();
  }

  /** Shows what has come, once per frame of the screen. */
  #show(): void {
    if (this.#frame !== 0) return;
    const frame = document.hidden ? (callback: () => void) => Number(setTimeout(callback, 500)) : requestAnimationFrame;
    this.#frame = frame(() => {
      this.#frame = 0;
      this.#publish();
    });
  }

  #publish(): void {
    this.steps = this.#answer.steps.map((piece) => ({ ...piece }));
    this.draft = this.#answer.draft;
  }
}
