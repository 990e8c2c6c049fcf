/** A run as its events tell it, live: the fold of the SDK, and the events themselves. */
import { RunView } from "@sdk/runView/run.js";
import { RunEvent } from "@sdk/types/run.js";
import { watchRun } from "../../api/events.js";

/** Pieces of text and of thinking come by the hundred: the view is drawn again once per frame of the screen at most. */
export class LiveRun {
  readonly view = new RunView();
  /** The durable events, in order. */
  readonly events: RunEvent[] = [];
  connected = $state(true);
  ended = $state(false);
  problem = $state("");
  /** Grows when something has changed: read it in whatever shows the run. */
  version = $state(0);
  #drawing = false;
  readonly #close: () => void;

  constructor(runId: string) {
    this.#close = watchRun(runId, {
      event: (proto) => {
        const event = new RunEvent(proto);
        if (event.seq > 0) {
          if (event.seq <= this.view.lastSeq) return; // after a reconnect
          this.events.push(event);
        }
        this.view.apply(event);
        this.#draw();
      },
      connected: (yes) => (this.connected = yes),
      end: () => {
        this.ended = true;
        this.connected = true;
      },
      failure: (message) => (this.problem = message),
    });
  }

  close(): void {
    this.#close();
  }

  #draw(): void {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.version += 1;
    });
  }
}
