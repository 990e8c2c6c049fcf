/** The tools that the subject shares, and its calls of the tools of others. */
import { setTimeout as sleep } from "node:timers/promises";
import { currentTrace, errorOfReason, type TaskRef } from "../src/index.js";
import { ToolClient, type SharedTool, type SharedToolCall } from "../src/tools/index.js";

const text = { type: "string" };
const SCHEMA = {
  type: "object",
  properties: { text, report: text, sleep: { type: "number", minimum: 0 }, fail: text, panic: text },
  required: ["text"],
  additionalProperties: false,
};

/** Calls that have begun, by their text. */
const begun = new Map<string, number>();

interface Given {
  readonly text: string;
  readonly report?: string;
  readonly sleep?: number;
  readonly fail?: string;
  readonly panic?: string;
}

async function use(given: Given, call: SharedToolCall): Promise<object> {
  const calls = (begun.get(given.text) ?? 0) + 1;
  begun.set(given.text, calls);
  if (given.report !== undefined) call.report(given.report);
  await sleep((given.sleep ?? 0) * 1000, undefined, { signal: call.signal });
  if (given.fail !== undefined) throw errorOfReason("UNAVAILABLE", given.fail);
  if (given.panic !== undefined) throw new Error(given.panic);
  return { text: given.text, calls, task: call.task?.taskId ?? "", trace: currentTrace().traceparent };
}

/** Returns the tools that the subject shares; none unless its environment asks for them. */
export function sharedTools(): SharedTool[] {
  if (!process.env["SUBJECT_TOOLS"]) return [];
  const tool = { name: "work", description: "Does some work.", inputSchemaJson: JSON.stringify(SCHEMA) };
  const execute: SharedTool["execute"] = (args, call) => use(args as unknown as Given, call);
  return [
    { tool, execute, maxCallsPerMinute: 600 },
    { tool: { ...tool, name: "look", idempotent: true }, execute, maxCallsPerMinute: 600 },
    { tool: { ...tool, name: "rare" }, execute, maxCallsPerMinute: 2, maxConcurrent: 1 },
  ];
}

/** A call of a tool of another agent. */
export interface ToolUse {
  readonly tool: string;
  readonly role?: string;
  readonly arguments: Record<string, unknown>;
  readonly timeout?: number;
  readonly idempotency_key?: string;
  readonly task?: { readonly task_id: string; readonly run_id: string; readonly attempt: number };
}

/** Leases a tool of another agent, and calls it once. */
export async function useTool(given: ToolUse, signal: AbortSignal): Promise<object> {
  await using client = new ToolClient(process.env["ARCHON_REGISTRY"] ?? "", { instanceId: "tester" });
  const { task_id: taskId = "", run_id: runId = "", attempt = 1 } = given.task ?? {};
  const task: TaskRef = { taskId, runId, attempt, epoch: 0 };
  await using tool = client.lease(given.tool, { role: given.role ?? "", ...(taskId && { task }) });
  const progress: string[] = [];
  const result = await tool.execute(given.arguments, {
    timeoutMs: (given.timeout ?? 30) * 1000,
    idempotencyKey: given.idempotency_key ?? "",
    onProgress: (each) => progress.push(each),
    signal,
  });
  return { status: result.status, content: result.content ?? null, error: result.errorMessage, progress };
}
