/** Clients of the mesh's services over Connect, with the session of this browser. */
import { createClient, type Client } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AuditService } from "@api/archon/api/audit/v1/audit_service_pb.js";
import { LongTermMemoryService } from "@api/archon/api/memory/v1/long_term_memory_service_pb.js";
import { MemoryGraphService } from "@api/archon/api/memory/v1/memory_graph_service_pb.js";
import { OrchestratorService } from "@api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { RegistryService } from "@api/archon/api/registry/v1/registry_service_pb.js";

const transport = createConnectTransport({ baseUrl: window.location.origin, defaultTimeoutMs: 30_000 });

export const orchestrator: Client<typeof OrchestratorService> = createClient(OrchestratorService, transport);
export const registry: Client<typeof RegistryService> = createClient(RegistryService, transport);
export const memoryGraph: Client<typeof MemoryGraphService> = createClient(MemoryGraphService, transport);
export const longTermMemory: Client<typeof LongTermMemoryService> = createClient(LongTermMemoryService, transport);
export const audit: Client<typeof AuditService> = createClient(AuditService, transport);
