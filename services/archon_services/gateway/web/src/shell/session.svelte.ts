/** Who is logged in, and which RPCs the policy of the mesh lets them call. */
import { clock } from "./clock.svelte.js";

export interface Session {
  readonly identity: string;
  readonly tenant: string;
  /** viewer, auditor, operator, admin, service or agent. */
  readonly kind: string;
  /** Paths of RPCs, such as `/archon.api.orchestrator.v1.OrchestratorService/SubmitRun`. */
  readonly rpcs: ReadonlySet<string>;
}

type Answer = Omit<Session, "rpcs"> & { readonly rpcs: readonly string[] };

const RETRY_MS = 2_000;

class CurrentSession {
  value = $state<Session | null>(null);
  /** Whether this browser is not logged in, and the page has nothing to show. */
  loggedOut = $state(false);
  /** Whether the session has ended while the page is shown: the page stays with all that was typed, and calls nothing. */
  expired = $state(false);
  /** Why the session could not be read; it is tried again. */
  problem = $state("");

  constructor() {
    const wake = (): void => {
      if (this.expired && !document.hidden) void this.load();
    };
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("focus", wake);
  }

  /** Reads the session, again and again while the gateway does not answer. */
  async load(): Promise<void> {
    let response: Response | undefined;
    try {
      response = await fetch("/session");
      clock.follow(response.headers.get("date"));
    } catch {
      // The gateway starts, or the network is away.
    }
    if (response?.status === 401) this.ended();
    else if (response?.ok) this.#begin((await response.json()) as Answer);
    else {
      this.problem = response === undefined ? "The gateway does not answer." : `The gateway does not serve this page now (${response.status}).`;
      setTimeout(() => void this.load(), RETRY_MS);
    }
  }

  /** Notes that a call was refused because nobody is logged in. */
  ended(): void {
    if (this.value === null) this.loggedOut = true;
    else this.expired = true;
  }

  #begin(answer: Answer): void {
    const before = this.value;
    if (before !== null && (before.identity !== answer.identity || before.tenant !== answer.tenant || before.kind !== answer.kind)) {
      window.location.reload(); // the page of another person
      return;
    }
    [this.value, this.loggedOut, this.expired, this.problem] = [{ ...answer, rpcs: new Set(answer.rpcs) }, false, false, ""];
  }

  /** Whether the caller may call an RPC: `may("orchestrator", "CancelRun")`. Actions that are refused are not shown. */
  may(service: "orchestrator" | "registry" | "audit" | "memory graph" | "long-term memory", method: string): boolean {
    return this.value?.rpcs.has(`${SERVICES[service]}/${method}`) ?? false;
  }

  async logOut(): Promise<void> {
    await fetch("/logout", { method: "POST" });
    this.value = null;
    this.loggedOut = true;
  }
}

const SERVICES = {
  orchestrator: "/archon.api.orchestrator.v1.OrchestratorService",
  registry: "/archon.api.registry.v1.RegistryService",
  audit: "/archon.api.audit.v1.AuditService",
  "memory graph": "/archon.api.memory.v1.MemoryGraphService",
  "long-term memory": "/archon.api.memory.v1.LongTermMemoryService",
} as const;

export const session = new CurrentSession();
