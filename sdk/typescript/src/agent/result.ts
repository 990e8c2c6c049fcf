/** A handler's return value as a TaskResult. */
import { create } from "@bufbuild/protobuf";
import { TaskResultSchema, type HistoryMessage, type TaskResult } from "../api/archon/api/agent/v1/agent_pb.js";
import { ContextItemSchema, TaskState } from "../api/archon/api/common/v1/common_pb.js";
import { UnknownFailure } from "../errors.js";
import { jsonPart, partToProto, textOf } from "../types/part.js";
import { usageToProto } from "../types/usage.js";
import { Question, questionToProto } from "./question.js";
import type { Task } from "./task.js";
import { checkedCheckpoint, policyToProto, shortened, turnToProto, type Answer } from "./values.js";

/** What a handler returns: a text, an Answer, a Question to a person, or nothing (an answer without text). */
export type Outcome = string | Answer | Question | undefined | null | void;

const KEYS = new Set(["text", "parts", "json", "usage", "publish", "metadata", "newHistory", "items"]);

function isAnswer(value: unknown): value is Answer {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.keys(value).every((key) => KEYS.has(key));
}

/** Returns the result of an answer, or of a question to a person. Throws UnknownFailure for anything else. */
export function toResult(task: Task, returned: unknown): TaskResult {
  if (returned instanceof Question) return inputRequired(task, returned);
  if (typeof returned === "string") return completed(task, { text: returned });
  if (returned === undefined || returned === null) return completed(task, {});
  if (isAnswer(returned)) return completed(task, returned);
  const given = typeof returned === "object" ? "an object with other keys" : typeof returned;
  throw new UnknownFailure(`the handler of ${task.role || "this role"} returned ${given}, not a text, an Answer or a Question`);
}

function completed(task: Task, answer: Answer): TaskResult {
  const { text = "", parts = [], json, usage, publish = true, metadata = {}, items = [] } = answer;
  const result = create(TaskResultSchema, {
    state: TaskState.COMPLETED,
    usage: usageToProto(usage ?? task.usage),
    noPublish: !publish,
    used: task.contextProto.flatMap((item) => (item.ref === undefined ? [] : [item.ref])),
    output: [...parts, ...(json === undefined ? [] : [jsonPart(json)]), ...(text ? [{ text }] : [])].map(partToProto),
    metadata: { ...metadata },
    messagesRead: BigInt(task.messagesRead),
    items: items.map((item) =>
      create(ContextItemSchema, {
        parts: [...(item.parts ?? []), ...(item.text ? [{ text: item.text }] : [])].map(partToProto),
        policy: policyToProto(item.policy ?? "final_response_only"),
        metadata: { ...item.metadata },
      }),
    ),
  });
  if (task.remembers) {
    result.conversationVersion = task.proto.conversationVersion;
    result.newHistory = turn(task, answer, result);
  }
  return result;
}

function turn(task: Task, answer: Answer, result: TaskResult): HistoryMessage[] {
  if (answer.newHistory !== undefined) return turnToProto(answer.newHistory);
  return turnToProto([
    { role: "user", text: shortened(task.text) },
    { role: "assistant", text: shortened(textOf(result.output)) },
  ]);
}

function inputRequired(task: Task, question: Question): TaskResult {
  return create(TaskResultSchema, {
    state: TaskState.INPUT_REQUIRED,
    usage: usageToProto(task.usage),
    checkpoint: checkedCheckpoint(question.options.checkpoint),
    inputRequest: questionToProto(question, question.options.inputId || `q${task.attempt}`),
  });
}
