/** Figures of tool calls, from the recorded calls of runs. */
import type { RunRecord } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { isObject, parsed } from "../../parts/form/json.js";
import { grouped } from "../../parts/grouped.js";

export interface ToolFigures {
  readonly role: string;
  readonly name: string;
  readonly calls: number;
  readonly failed: number;
  /** Milliseconds; the 95th percentile is the slowest call of fewer than 20. */
  readonly median: number;
  readonly p95: number;
}

/** Returns the figures of each tool of each role, the most called first. */
export function figuresOf(records: readonly RunRecord[]): ToolFigures[] {
  const tools = records.filter((record) => record.kind === "tool");
  const groups = grouped(tools, (record) => JSON.stringify([record.role, record.target]));
  const figures = groups.map(([, of]) => {
    const times = of.map(milliseconds).sort((one, other) => one - other);
    return { role: of[0]?.role ?? "", name: of[0]?.target ?? "", calls: of.length, failed: of.filter(hasFailed).length, median: quantile(times, 0.5), p95: quantile(times, 0.95) };
  });
  return figures.sort((one, other) => other.calls - one.calls || one.name.localeCompare(other.name));
}

/** The value below or at which a part of the sorted values are (nearest rank). */
export function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
}

function milliseconds(record: RunRecord): number {
  const { seconds = 0n, nanos = 0 } = record.duration ?? {};
  return Number(seconds) * 1_000 + nanos / 1e6;
}

function hasFailed(record: RunRecord): boolean {
  const response = parsed(record.responseJson);
  if (!isObject(response)) return false;
  const status = response["status"];
  return (response["error"] !== undefined && response["error"] !== null) || status === "error" || status === "timeout";
}
