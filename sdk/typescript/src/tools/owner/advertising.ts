/** Keeps the registration of an owner as its shared tools change: at once if one is shared or taken back, and once a minute. */
import { outsideOfCalls } from "../../context.js";
import { log } from "../../log.js";
import type { Registration, Tool } from "../../registry/registration.js";
import type { RegistrationHandle } from "../../registry/registrationHandle.js";
import { asError } from "../../status.js";
import { differsNotably } from "./figures.js";
import type { ToolOwner } from "./toolOwner.js";

/** Milliseconds between two updates of the figures at least; a random part of up to a tenth comes on top. */
const INTERVAL = 60_000;

/** Returns the tools of a registration: each tool once, those that are shared with their terms. */
export function withShared(tools: readonly Tool[], shared: readonly Tool[]): Tool[] {
  const byName = new Map(tools.map((tool) => [tool.name, { ...tool, share: undefined } as Tool]));
  for (const tool of shared) byName.set(tool.name, tool);
  return [...byName.values()];
}

/** Updates the registration in the background. `registered` is called with each new content. */
export class Advertising {
  readonly #own: readonly Tool[];
  #timer: NodeJS.Timeout | undefined;
  #isBusy = false;
  #isClosed = false;

  constructor(
    readonly owner: ToolOwner,
    readonly handle: RegistrationHandle,
    readonly registered: (registration: Registration) => void,
  ) {
    this.#own = handle.registration.tools.filter((tool) => tool.share === undefined);
  }

  /** Starts the updates. */
  start(): void {
    this.owner.onChanged = () => void this.#update();
    this.#timer = outsideOfCalls(() =>
      setInterval(() => void this.#update(), INTERVAL * (1 + Math.random() / 10)).unref(),
    );
  }

  /** Ends the updates. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.owner.onChanged = () => undefined;
    clearInterval(this.#timer);
  }

  /** Registers the tools anew if they differ from the registered ones. */
  async #update(): Promise<void> {
    if (this.#isBusy || this.#isClosed) return;
    this.#isBusy = true;
    try {
      while (!this.#isClosed && this.#differs()) {
        const tools = withShared(this.#own, this.owner.advertised);
        await this.handle.update({ ...this.handle.registration, tools });
        this.registered(this.handle.registration);
      }
    } catch (error) {
      log("warning", `the figures of the shared tools are not registered: ${asError(error).message}`);
    } finally {
      this.#isBusy = false;
    }
  }

  #differs(): boolean {
    const registered = this.handle.registration.tools.filter((tool) => tool.share !== undefined);
    const current = this.owner.advertised;
    if (registered.length !== current.length) return true;
    return current.some((tool) => {
      const known = registered.find((each) => each.name === tool.name);
      return known === undefined || differsNotably(known.share, tool.share);
    });
  }
}
