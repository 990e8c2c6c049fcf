/** Recorded model calls: their messages with origins, their tokens and answers. */
import type { RunRecord } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { grouped } from "../../parts/grouped.js";
import { isObject, parsed, type Json } from "../../parts/form/json.js";

export interface Message {
  readonly role: string;
  readonly origin: string;
  readonly text: string;
}

export interface Call {
  readonly record: RunRecord;
  /** Number of the call in its task, from 1. */
  readonly number: number;
  readonly of: number;
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: number;
  readonly answer: string;
  readonly failed: boolean;
}

/** Returns the calls, numbered by task. */
export function callsOf(records: readonly RunRecord[]): Call[] {
  const byTask = new Map(grouped(records, (record) => record.task?.taskId ?? ""));
  return records.map((record) => {
    const of = byTask.get(record.task?.taskId ?? "") ?? [];
    const request = parsed(record.requestJson);
    const response = parsed(record.responseJson);
    const tools = isObject(request) && Array.isArray(request["tools"]) ? request["tools"].length : 0;
    const failed = isObject(response) && isObject(response["error"]);
    return { record, number: of.indexOf(record) + 1, of: of.length, model: record.target, messages: messagesOf(request), tools, answer: answerOf(response), failed };
  });
}

function messagesOf(request: Json | undefined): Message[] {
  if (!isObject(request) || !Array.isArray(request["messages"])) return [];
  const origins = Array.isArray(request["origins"]) ? request["origins"] : [];
  return request["messages"].map((message, index) => {
    const role = isObject(message) && typeof message["role"] === "string" ? message["role"] : "message";
    return { role, origin: originOf(origins[index]), text: textOf(message) };
  });
}

/** The origin of a message in words, such as `own system prompt` or `shared context v1 of requirements`. */
function originOf(origin: Json | undefined): string {
  if (!isObject(origin)) return "";
  const { kind, ...rest } = origin;
  const facts = Object.values(rest).filter((value) => typeof value === "string" || typeof value === "number");
  return [typeof kind === "string" ? kind.replaceAll("_", " ") : "", ...facts.map(String)].filter(Boolean).join(" ");
}

function textOf(message: Json): string {
  if (!isObject(message)) return JSON.stringify(message);
  const content = message["content"];
  const calls = message["tool_calls"];
  const text = typeof content === "string" ? content : content === undefined || content === null ? "" : JSON.stringify(content, null, 2);
  return [text, calls === undefined ? "" : JSON.stringify(calls, null, 2)].filter(Boolean).join("\n");
}

function answerOf(response: Json | undefined): string {
  if (!isObject(response)) return response === undefined ? "" : JSON.stringify(response);
  const error = response["error"];
  if (isObject(error)) return typeof error["message"] === "string" ? error["message"] : JSON.stringify(error);
  const calls = response["tool_calls"];
  const text = typeof response["text"] === "string" ? response["text"] : "";
  if (text === "" && calls === undefined) return JSON.stringify(response, null, 2);
  return [text, calls === undefined ? "" : JSON.stringify(calls, null, 2)].filter(Boolean).join("\n");
}

/** Returns the command that sends a call again with other texts; a text is quoted for a shell of POSIX. */
export function playgroundCommand(call: Call, changes: ReadonlyMap<number, string>, model: string, repeat: number): string {
  const sets = [...changes].map(([index, text]) => ` --set ${quoted(`${index + 1}=${text.startsWith("@") ? ` ${text}` : text}`)}`);
  const other = model.trim() === "" ? "" : ` --model ${quoted(model.trim())}`;
  const times = repeat > 1 ? ` --repeat ${repeat}` : "";
  return `archon playground ${call.record.task?.runId ?? ""} ${quoted(call.record.task?.taskId ?? "")} ${call.number}${sets.join("")}${other}${times}`;
}

function quoted(text: string): string {
  return /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
