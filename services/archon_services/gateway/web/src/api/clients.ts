/** Clients of the mesh's services over Connect, with the session of this browser. */
import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AuditService } from "@api/archon/api/audit/v1/audit_service_pb.js";
import { LongTermMemoryService } from "@api/archon/api/memory/v1/long_term_memory_service_pb.js";
import { MemoryGraphService } from "@api/archon/api/memory/v1/memory_graph_service_pb.js";
import { OrchestratorService } from "@api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { RegistryService } from "@api/archon/api/registry/v1/registry_service_pb.js";
import { session } from "../shell/session.svelte.js";

/** Nothing is called while no one is logged in: a page that is left open would be refused again and again. */
const loggedIn: Interceptor = (next) => async (request) => {
  if (session.expired) throw new ConnectError("The session has ended: log in again.", Code.Unauthenticated);
  try {
    return await next(request);
  } catch (thrown) {
    if (ConnectError.from(thrown).code === Code.Unauthenticated) session.ended();
    throw thrown;
  }
};

const transport = createConnectTransport({ baseUrl: window.location.origin, defaultTimeoutMs: 30_000, interceptors: [loggedIn] });

export const orchestrator: Client<typeof OrchestratorService> = createClient(OrchestratorService, transport);
export const registry: Client<typeof RegistryService> = createClient(RegistryService, transport);
export const memoryGraph: Client<typeof MemoryGraphService> = createClient(MemoryGraphService, transport);
export const longTermMemory: Client<typeof LongTermMemoryService> = createClient(LongTermMemoryService, transport);
export const audit: Client<typeof AuditService> = createClient(AuditService, transport);
