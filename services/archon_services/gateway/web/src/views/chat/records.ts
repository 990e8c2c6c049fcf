/** The steps of an answer from the recorded calls of its run. */
import type { RunRecord } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "../../api/clients.js";
import { isObject, parsed } from "../../parts/form/json.js";
import type { Piece, ToolPiece } from "./answer.js";

const PAGE = 200;
const MOST = 1_000;

/** Reads the steps of a run: thinking and tool calls, in their order. Throws the error of the call. */
export async function recordedSteps(runId: string): Promise<Piece[]> {
  const steps: Piece[] = [];
  let pageToken = "";
  do {
    const page = await orchestrator.listRunRecords({ runId, pageSize: PAGE, pageToken });
    for (const record of page.records) steps.push(...stepsOf(record));
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && steps.length < MOST);
  return steps;
}

/** Returns the steps of one record: a tool call, or the thinking of a model, if it was recorded. */
export function stepsOf(record: RunRecord): Piece[] {
  const taskId = record.task?.taskId ?? "";
  if (record.kind === "tool") return [toolOf(record, taskId)];
  const response = parsed(record.responseJson);
  const thinking = isObject(response) ? response["thinking"] : undefined;
  return typeof thinking === "string" && thinking !== "" ? [{ kind: "thinking", taskId, role: record.role, text: thinking }] : [];
}

function toolOf(record: RunRecord, taskId: string): ToolPiece {
  const request = parsed(record.requestJson);
  const response = parsed(record.responseJson);
  const id = isObject(request) ? (request["id"] ?? request["call_id"]) : undefined;
  const given = isObject(request) ? request["arguments"] : undefined;
  const failed = isObject(response) && (response["error"] !== undefined || response["status"] === "error" || response["status"] === "timeout");
  return {
    kind: "tool",
    taskId,
    role: record.role,
    callId: typeof id === "string" ? id : `record ${record.ordinal}`,
    name: record.target,
    arguments: given === undefined ? record.requestJson : typeof given === "string" ? given : JSON.stringify(given),
    result: record.responseJson,
    state: failed ? "failed" : "done",
  };
}
