/** The records of roles and instances, by which placement chooses. */
import type { InstanceMetrics } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "./clients.js";

const PAGE = 1_000;
const MOST = 5_000;

/** Reads all records. Throws the error of the call. */
export async function listMetrics(): Promise<InstanceMetrics[]> {
  const found: InstanceMetrics[] = [];
  let pageToken = "";
  do {
    const page = await orchestrator.listInstanceMetrics({ pageSize: PAGE, pageToken });
    found.push(...page.metrics);
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && found.length < MOST);
  return found;
}

/** `98 %`; an empty text without a figure. */
export function percent(rate: number | undefined, of = 1): string {
  return rate === undefined || of === 0 ? "" : `${Math.round(rate * 100)} %`;
}
