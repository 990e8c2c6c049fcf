/** Clients of the mesh's services: each with the RPCs of `rpcs.ts`. */
import type { Client } from "@connectrpc/connect";
import { AuditService } from "@api/archon/api/audit/v1/audit_service_pb.js";
import { LongTermMemoryService } from "@api/archon/api/memory/v1/long_term_memory_service_pb.js";
import { MemoryGraphService } from "@api/archon/api/memory/v1/memory_graph_service_pb.js";
import { OrchestratorService } from "@api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { RegistryService } from "@api/archon/api/registry/v1/registry_service_pb.js";
import { session } from "../shell/session.svelte.js";
import { call, CallError, type CallOptions } from "./calls.js";
import type { RPCS } from "./rpcs.js";

type Methods<Name extends keyof typeof RPCS> = (typeof RPCS)[Name][number];

/** Calls an RPC. Nothing is called while no one is logged in: a page that is left open would be refused again and again. */
async function callInSession(service: string, method: string, init: object, options?: CallOptions): Promise<unknown> {
  if (session.expired) throw new CallError("unauthenticated", "The session has ended: log in again.");
  try {
    return await call(service, method, init, options);
  } catch (thrown) {
    if (thrown instanceof CallError && thrown.code === "unauthenticated") session.ended();
    throw thrown;
  }
}

function clientOf<T extends object>({ typeName }: { readonly typeName: string }): T {
  return new Proxy({}, { get: (_, method: string) => (init: object, options?: CallOptions) => callInSession(typeName, method, init, options) }) as T;
}

export const orchestrator = clientOf<Pick<Client<typeof OrchestratorService>, Methods<"archon.api.orchestrator.v1.OrchestratorService">>>(OrchestratorService);
export const registry = clientOf<Pick<Client<typeof RegistryService>, Methods<"archon.api.registry.v1.RegistryService">>>(RegistryService);
export const memoryGraph = clientOf<Pick<Client<typeof MemoryGraphService>, Methods<"archon.api.memory.v1.MemoryGraphService">>>(MemoryGraphService);
export const longTermMemory = clientOf<Pick<Client<typeof LongTermMemoryService>, Methods<"archon.api.memory.v1.LongTermMemoryService">>>(LongTermMemoryService);
export const audit = clientOf<Pick<Client<typeof AuditService>, Methods<"archon.api.audit.v1.AuditService">>>(AuditService);
