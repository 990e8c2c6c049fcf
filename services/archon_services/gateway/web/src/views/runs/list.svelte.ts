/** A page of the list of runs, read again while it is shown. Details of a run are read when it has changed. */
import type { Run } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "../../api/clients.js";
import { isFinal } from "../../parts/format.js";
import type { Filter } from "./filters.js";

export const PAGE = 25;
const SECONDS = 2.5;
const HIDDEN_SECONDS = 30;
const DETAILS_SECONDS = 5;
const AT_ONCE = 6;
const MAX_DETAILS = 500;
/** Pages without a run that are passed over at a time: a search goes through many runs. */
const SEARCHED_PAGES = 20;

interface Details {
  readonly run: Run;
  readonly seq: bigint;
  readonly read: number;
}

export class RunList {
  runs = $state.raw<readonly Run[]>([]);
  details = $state.raw<ReadonlyMap<string, Run>>(new Map());
  /** The token of the page that follows; empty on the last one. */
  next = $state("");
  loaded = $state(false);
  problem = $state.raw<unknown>(undefined);
  readonly #details = new Map<string, Details>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;

  /** `filter` is made anew for each reading: a time since the submit moves on. */
  constructor(
    private readonly filter: () => Filter,
    private readonly pageToken: string,
  ) {}

  /** Reads until the returned function is called. */
  start(): () => void {
    const wake = (): void => {
      if (!document.hidden) void this.#read();
    };
    document.addEventListener("visibilitychange", wake);
    void this.#read();
    return () => {
      this.#stopped = true;
      clearTimeout(this.#timer);
      document.removeEventListener("visibilitychange", wake);
    };
  }

  /** Reads the page again now. */
  again(): void {
    void this.#read();
  }

  async #read(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      await this.#readPage();
      this.problem = undefined;
    } catch (thrown) {
      if (!this.#stopped) this.problem = thrown;
    }
    if (this.#stopped) return;
    this.loaded = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#read(), (document.hidden ? HIDDEN_SECONDS : SECONDS) * 1_000);
  }

  async #readPage(): Promise<void> {
    const runs: Run[] = [];
    let token = this.pageToken;
    for (let page = 0; page < SEARCHED_PAGES; page++) {
      const answer = await orchestrator.listRuns({ ...this.filter(), pageSize: PAGE - runs.length, pageToken: token });
      runs.push(...answer.runs);
      token = answer.nextPageToken;
      if (token === "" || runs.length >= PAGE || this.#stopped) break;
    }
    if (this.#stopped) return;
    this.runs = runs;
    this.next = token;
    this.loaded = true;
    await this.#readDetails(runs);
  }

  async #readDetails(runs: readonly Run[]): Promise<void> {
    const now = Date.now();
    const stale = runs.filter((run) => {
      const known = this.#details.get(run.runId);
      if (known === undefined) return true;
      return known.seq !== run.lastSeq && (isFinal(run.state) || now - known.read > DETAILS_SECONDS * 1_000);
    });
    const waiting = [...stale];
    const reader = async (): Promise<void> => {
      for (let run = waiting.shift(); run !== undefined && !this.#stopped; run = waiting.shift()) await this.#readOne(run);
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, waiting.length) }, reader));
    for (const runId of this.#details.keys()) {
      if (this.#details.size <= MAX_DETAILS) break;
      this.#details.delete(runId);
    }
    if (stale.length > 0) this.#show();
  }

  async #readOne(listed: Run): Promise<void> {
    try {
      const { run } = await orchestrator.getRun({ runId: listed.runId });
      if (run) this.#details.set(run.runId, { run, seq: listed.lastSeq, read: Date.now() });
    } catch {
      this.#details.set(listed.runId, { run: listed, seq: listed.lastSeq, read: Date.now() }); // its own page says why
    }
    this.#show();
  }

  #show(): void {
    if (!this.#stopped) this.details = new Map([...this.#details].map(([runId, { run }]) => [runId, run]));
  }
}
