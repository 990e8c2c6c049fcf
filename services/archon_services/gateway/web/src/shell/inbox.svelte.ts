/** The open questions of all runs, read again every few seconds: for the view, the count in the navigation and the title. */
import type { Question } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "../api/clients.js";
import { session } from "./session.svelte.js";

const PAGE = 200;
const MOST = 1_000;
const WATCHED = 2_000;
const SHOWN = 5_000;
const HIDDEN = 30_000;

class Inbox {
  questions = $state.raw<readonly Question[]>([]);
  /** Whether there are more than are read. */
  more = $state(false);
  /** Whether they were read at least once. */
  loaded = $state(false);
  problem = $state.raw<unknown>(undefined);
  #watchers = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading: Promise<void> | undefined;

  get count(): number {
    return this.questions.length;
  }

  /** Begins to read, if the reader may. Returns a function that ends it. */
  start(): () => void {
    if (!session.may("orchestrator", "ListQuestions")) return () => undefined;
    const wake = (): void => {
      if (!document.hidden) void this.read();
    };
    document.addEventListener("visibilitychange", wake);
    void this.read();
    return () => {
      document.removeEventListener("visibilitychange", wake);
      clearTimeout(this.#timer);
    };
  }

  /** Reads more often until the returned function is called. */
  watch(): () => void {
    this.#watchers++;
    void this.read();
    return () => void this.#watchers--;
  }

  /** Reads them now. */
  async read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #readOnce(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      const found: Question[] = [];
      let pageToken = "";
      do {
        const page = await orchestrator.listQuestions({ pageSize: PAGE, pageToken });
        found.push(...page.questions);
        pageToken = page.nextPageToken;
      } while (pageToken !== "" && found.length < MOST);
      this.questions = this.#inPlace(found);
      this.more = pageToken !== "";
      this.problem = undefined;
    } catch (thrown) {
      this.problem = thrown;
    }
    this.loaded = true;
    this.#timer = setTimeout(() => void this.read(), document.hidden ? HIDDEN : this.#watchers > 0 ? WATCHED : SHOWN);
  }

  /** Questions keep their places, and new ones follow: nothing moves under the pointer. */
  #inPlace(found: readonly Question[]): readonly Question[] {
    const known = new Set(this.questions.map((question) => question.inputId));
    const kept = this.questions.flatMap(({ inputId }) => found.find((question) => question.inputId === inputId) ?? []);
    const added = found.filter((question) => !known.has(question.inputId));
    const expiry = (question: Question): number => Number(question.expireTime?.seconds ?? Number.MAX_SAFE_INTEGER);
    return [...kept, ...added.sort((one, other) => expiry(one) - expiry(other))];
  }
}

export const inbox = new Inbox();
