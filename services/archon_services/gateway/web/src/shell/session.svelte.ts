/** Who is logged in, and which RPCs the policy of the mesh lets them call. */

export interface Session {
  readonly identity: string;
  readonly tenant: string;
  /** viewer, auditor, operator, admin, service or agent. */
  readonly kind: string;
  /** Paths of RPCs, such as `/archon.api.orchestrator.v1.OrchestratorService/SubmitRun`. */
  readonly rpcs: ReadonlySet<string>;
}

class CurrentSession {
  value = $state<Session | null>(null);
  loggedOut = $state(false);

  async load(): Promise<void> {
    const response = await fetch("/session");
    if (!response.ok) {
      this.loggedOut = true;
      return;
    }
    const answer = (await response.json()) as { identity: string; tenant: string; kind: string; rpcs: string[] };
    this.value = { ...answer, rpcs: new Set(answer.rpcs) };
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
