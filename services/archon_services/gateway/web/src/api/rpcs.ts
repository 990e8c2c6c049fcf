/**
 * The RPCs that the page calls, and the messages that it reads besides. The build keeps their types alone, with what these
 * consist of: `stubs.ts` beside `vite.config.ts`. `clients.ts` has no other methods.
 */
export const RPCS = {
  "archon.api.audit.v1.AuditService": ["listEntries"],
  "archon.api.memory.v1.LongTermMemoryService": ["deleteEntry", "getEntry", "getStats", "listRecentEntries", "rateEntry", "searchEntries", "storeEntry", "updateEntry"],
  "archon.api.memory.v1.MemoryGraphService": ["getGraph", "searchItems"],
  "archon.api.orchestrator.v1.OrchestratorService": [
    "cancelRun", "decideLearnedVersion", "editPlan", "forkRun", "getQuotas", "getRun", "listInstanceMetrics", "listLearnedVersions", "listQuestions", "listRunRecords",
    "listRuns", "markRun", "pauseRun", "rateRun", "respond", "resumeRun", "revertLearnedVersion", "setBreakpoints", "submitRun",
  ],
  "archon.api.registry.v1.RegistryService": ["getGraph", "listInstances", "pinEdges", "unpinEdges"],
} as const;

export const MESSAGES = ["archon.api.orchestrator.v1.RunEvent", "archon.api.registry.v1.WatchResponse"] as const;
