/** Tools of other agents: found in the registry, leased, and executed where they live; and tools that an agent lends. */
export { ToolClient } from "./caller/client.js";
export type { FoundTool, ToolQuery } from "./caller/find.js";
export { LeasedTool, type ExecuteOptions, type LeaseOptions } from "./caller/leasedTool.js";
export type { Lease } from "./owner/leases.js";
export type { ToolOwner } from "./owner/toolOwner.js";
export type { SharedToolResult, SharedToolStatus } from "./result.js";
export type { SharedTool, SharedToolCall } from "./sharedTool.js";
