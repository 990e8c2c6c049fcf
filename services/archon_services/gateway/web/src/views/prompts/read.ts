/** Reads the recorded model calls of a run. */
import type { RunRecord } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "../../api/clients.js";
import { callsOf, type Call } from "./calls.js";

const PAGE = 100;
const MOST = 2_000;

/** Reads the model calls of a run. Throws the error of the call. */
export async function readCalls(runId: string): Promise<Call[]> {
  const records: RunRecord[] = [];
  let pageToken = "";
  do {
    const page = await orchestrator.listRunRecords({ runId, pageSize: PAGE, pageToken });
    records.push(...page.records.filter((record) => record.kind === "model"));
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && records.length < MOST);
  return callsOf(records);
}
