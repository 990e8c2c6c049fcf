/** The time of the mesh, once a second, for ages and durations that grow. */

/** Milliseconds by which two clocks may differ and still count as the same: a header has whole seconds. */
const SAME_MS = 3_000;

class Clock {
  now = $state(Date.now());
  #ahead = 0;

  constructor() {
    setInterval(() => (this.now = this.exact()), 1_000);
  }

  /** Returns the time of the mesh in milliseconds since 1970, by the clock of this browser. */
  exact(): number {
    return Date.now() + this.#ahead;
  }

  /** Follows the clock of the gateway, whose answer has this header `Date`: the clock of a browser can be wrong by hours. */
  follow(date: string | null): void {
    const ahead = Date.parse(date ?? "") - Date.now();
    this.#ahead = Math.abs(ahead) > SAME_MS ? ahead : 0;
    this.now = this.exact();
  }
}

export const clock = new Clock();
