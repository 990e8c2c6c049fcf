/** Finds the tools that live instances share, best first. */
import type { Registration, Tool, ToolShare } from "../../registry/registration.js";

/** A success rate of few calls says little: it is taken together with this many calls of this rate. */
const PRIOR_CALLS = 10;
const PRIOR_RATE = 0.9;

/** A tool that an instance shares, with its terms. */
export interface FoundTool {
  readonly tool: Tool;
  readonly share: ToolShare;
  readonly role: string;
  readonly instanceId: string;
  readonly address: string;
}

/** Which tools to find: by name, by the role or a capability of the owner, or by words that all occur. */
export interface ToolQuery {
  readonly name?: string;
  readonly role?: string;
  readonly capability?: string;
  readonly words?: string;
}

/** Returns the shared tools of registrations, one for each instance: by success rate, then by latency. */
export function sharedBy(instances: readonly Registration[], query: ToolQuery): FoundTool[] {
  const { name = "", role = "", capability = "", words = "" } = query;
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found: FoundTool[] = [];
  for (const instance of instances) {
    if (role && instance.role !== role) continue;
    if (capability && !instance.capabilities.some((each) => each.id === capability)) continue;
    for (const tool of instance.tools) {
      if (tool.share === undefined || (name && tool.name !== name)) continue;
      const text = `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""} ${instance.role}`.toLowerCase();
      if (!wanted.every((word) => text.includes(word))) continue;
      const { instanceId, address } = instance;
      found.push({ tool, share: tool.share, role: instance.role, instanceId, address });
    }
  }
  return found.sort(compare);
}

function expectedSuccess({ share }: FoundTool): number {
  const calls = Math.max(0, share.calls);
  const rate = Math.min(1, Math.max(0, share.successRate || 0));
  return (calls * rate + PRIOR_CALLS * PRIOR_RATE) / (calls + PRIOR_CALLS);
}

/** Latencies tell tools of about the same success rate apart. */
function compare(one: FoundTool, other: FoundTool): number {
  const rates = Math.round(expectedSuccess(other) * 10) - Math.round(expectedSuccess(one) * 10);
  if (rates !== 0) return rates;
  const latencies = one.share.meanLatencyMs - other.share.meanLatencyMs;
  if (latencies !== 0) return latencies;
  const [a, b] = [one, other].map(({ role, tool, instanceId }) => `${role} ${tool.name} ${instanceId}`) as [string, string];
  return a < b ? -1 : 1;
}
