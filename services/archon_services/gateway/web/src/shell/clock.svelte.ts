/** The time, once a second, for ages and durations that grow. */

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => (this.now = Date.now()), 1_000);
  }
}

export const clock = new Clock();
