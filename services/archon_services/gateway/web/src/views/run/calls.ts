/** Recorded calls of a task: prompts as they were sent, answers, tools. */
import type { RunRecord } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { orchestrator } from "../../api/clients.js";
import { isObject, parsed, type Json } from "../../parts/form/json.js";

export interface PromptMessage {
  readonly role: string;
  /** Where the message comes from, such as `system_prompt`; empty if it was not recorded. */
  readonly origin: string;
  readonly text: string;
}

const PAGE = 200;
const MOST = 1_000;

/** Returns the calls of a task, in order, and whether there are more. */
export async function callsOf(runId: string, role: string, taskId: string): Promise<{ calls: readonly RunRecord[]; more: boolean }> {
  const calls: RunRecord[] = [];
  let pageToken = "";
  let read = 0;
  do {
    const page = await orchestrator.listRunRecords({ runId, role, pageSize: PAGE, pageToken });
    calls.push(...page.records.filter((record) => record.task?.taskId === taskId));
    read += page.records.length;
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && read < MOST);
  return { calls, more: pageToken !== "" };
}

/** Returns the messages of a recorded prompt; none if the record has another form. */
export function messagesOf(requestJson: string): readonly PromptMessage[] {
  const request = parsed(requestJson);
  if (!isObject(request)) return [];
  const messages = request["messages"];
  const origins = request["origins"];
  if (!Array.isArray(messages)) return [];
  return messages.map((message, index) => ({
    role: isObject(message) && typeof message["role"] === "string" ? message["role"] : "",
    origin: Array.isArray(origins) && origins.length === messages.length ? originText(origins[index]) : "",
    text: isObject(message) ? contentText(message["content"] ?? null) || JSON.stringify(message) : JSON.stringify(message),
  }));
}

function originText(origin: Json | undefined): string {
  if (typeof origin === "string") return origin;
  if (isObject(origin)) return [origin["kind"], origin["role"], origin["origin"]].filter((each) => typeof each === "string").join(" ");
  return "";
}

function contentText(content: Json): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null ? "" : JSON.stringify(content);
  return content.map((piece) => (isObject(piece) && typeof piece["text"] === "string" ? piece["text"] : JSON.stringify(piece))).join("\n");
}

/** Returns a JSON text with indents, or as it is if it is none. */
export function pretty(json: string): string {
  const value = parsed(json);
  return value === undefined ? json : typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
