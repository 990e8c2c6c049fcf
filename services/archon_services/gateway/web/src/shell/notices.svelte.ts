/** Notices of what was done or failed, at the edge of the page and to screen readers. */
import { problemOf } from "../api/problem.js";

export interface Notice {
  readonly id: number;
  readonly kind: "done" | "problem";
  readonly text: string;
}

const SHOWN = 5;
const SECONDS = 8;

class Notices {
  list = $state<Notice[]>([]);
  #next = 1;

  add(kind: Notice["kind"], text: string): void {
    const id = this.#next++;
    this.list = [...this.list, { id, kind, text }].slice(-SHOWN);
    if (kind === "done") setTimeout(() => this.drop(id), SECONDS * 1_000);
  }

  drop(id: number): void {
    this.list = this.list.filter((notice) => notice.id !== id);
  }

  /** Does an action and says how it ended; returns its result, or undefined if it failed. */
  async attempt<T>(done: string, action: () => Promise<T>): Promise<T | undefined> {
    try {
      const result = await action();
      if (done !== "") this.add("done", done);
      return result;
    } catch (thrown) {
      this.add("problem", problemOf(thrown).message);
      return undefined;
    }
  }
}

export const notices = new Notices();
