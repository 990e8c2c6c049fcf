/** Test doubles: an agent that plays a script, and an orchestrator that gives an agent tasks. */
export { FakeAgent, type Reply } from "./agent.js";
export { FrameOrchestrator, type OpenOptions } from "./frameOrchestrator.js";
export { FakeOrchestrator, type AssignOptions, type AttemptResult, type ReceivedDelegation } from "./orchestrator.js";
