/** The steps of a task of the subject: what its handler does, one after the other (sdk/conformance/README.md). */
import { setTimeout as sleep } from "node:timers/promises";
import {
  ArchonError,
  errorOfReason,
  Question,
  TaskRejected,
  type Answer,
  type MessageType,
  type Reason,
  type Task,
} from "../src/index.js";

type Fields = Record<string, never>;

/** Returns all that an error of the SDK has. */
export function shown(error: ArchonError): object {
  const { code, reason, message, kind, retry, retryDelayMs, metadata, fieldViolations } = error;
  const violations = fieldViolations.map(({ field, description }) => [field, description]);
  const retry_delay = retryDelayMs === undefined ? null : retryDelayMs / 1000;
  return { code, reason, message, kind, retry, retry_delay, metadata, violations };
}

const ECHOES: Record<string, (task: Task) => unknown> = {
  parts: (task) => task.parts.map(({ text, dataJson, url, raw }) => text ?? dataJson ?? url ?? String(raw)),
  context: (task) => task.context.map(({ role, text }) => [role, text]),
  remaining: (task) => seconds(task.remainingMs()),
  metadata: (task) => task.metadata,
  trace: (task) => task.trace.traceparent,
  history: (task) => task.history.map(({ role, text }) => [role, text]),
  checkpoint: (task) => Buffer.from(task.checkpoint).toString("utf8"),
  answers: (task) => Object.fromEntries([...task.answers].map(([inputId, { text }]) => [inputId, text])),
  attempt: (task) => task.attempt,
  task_id: (task) => task.taskId,
  run_id: (task) => task.runId,
  session_id: (task) => task.sessionId,
  targets: (task) => task.delegationTargets.map(({ role }) => role),
  chain: (task) => task.delegationChain,
  budget: (task) => budget(task),
  expected_output: (task) => task.expectedOutput,
};

function seconds(ms: number | undefined): number | null {
  return ms === undefined ? null : ms / 1000;
}

function budget(task: Task): object {
  const { maxTokens, maxCostMicroUsd, maxTimeMs, maxDepth, maxModelCalls } = task.budget ?? {};
  return {
    max_tokens: maxTokens,
    max_cost_micro_usd: maxCostMicroUsd,
    max_time: maxTimeMs === undefined ? undefined : maxTimeMs / 1000,
    max_depth: maxDepth,
    max_model_calls: maxModelCalls,
  };
}

/** Executes a step that goes on. Returns its value; undefined if it has none. */
export async function execute(task: Task, name: string, value: never): Promise<unknown> {
  const fields: Fields = value;
  switch (name) {
    case "sleep":
      await sleep(value * 1000, undefined, { signal: task.signal });
      return undefined;
    case "block":
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, value * 1000);
      return undefined;
    case "ignore_cancel":
      await sleep(Number(fields["seconds"]) * 1000);
      return task.write(fields["write"] ?? "");
    case "write":
      return task.write(value);
    case "publish":
      return task.publish(value as string);
    case "save":
      return task.save(value as string);
    case "model_call":
      return task.recordModelCall(fields["model"] ?? "", {
        usage: { inputTokens: fields["input_tokens"] ?? 0, outputTokens: fields["output_tokens"] ?? 0 },
      });
    case "tool_call":
      return task.recordToolCall(fields["tool"] ?? "", {
        arguments: JSON.parse(fields["arguments_json"] ?? "{}"),
        result: JSON.parse(fields["result_json"] ?? "null"),
      });
    case "delegate": {
      const { role = "", capability = "", text, memo_key: memoKey = "", timeout } = fields;
      const timeoutMs = timeout === undefined ? {} : { timeoutMs: timeout * 1000 };
      return (await task.delegate(text ?? "", { role, capability, memoKey, ...timeoutMs })).text;
    }
    case "ask":
      return task.ask(fields["text"] ?? "", { schemaJson: fields["schema_json"] ?? "", inputId: fields["input_id"] ?? "" });
    case "ask_secret":
      return task.askSecret(value);
    case "reserve":
      await task.reserve({ tokens: fields["tokens"] ?? 0 });
      return true;
    case "send": {
      const type = (fields["type"] ?? "notification") as MessageType;
      return task.send(fields["text"] ?? "", { to: fields["role"] ?? "", type });
    }
    case "receive": {
      const texts: unknown[] = [];
      if (value > 0) for await (const { content } of task.messages()) if (texts.push(content) >= value) break;
      return texts;
    }
    case "await_update":
      await task.contextChanged(value - 1);
      return undefined;
    case "echo":
      return ECHOES[value]?.(task) ?? null;
    case "fail": {
      const { reason, message, retry_delay } = fields as { reason?: Reason; message?: string; retry_delay?: number };
      throw new Failing(reason ?? "INTERNAL", message ?? "", retry_delay);
    }
    case "reject":
      throw new Ending(new TaskRejected(value));
    case "panic":
      throw new Ending(new Error(value));
    default:
      throw new Ending(new Error(`the subject knows no step ${name}`));
  }
}

/** Ends the task with what it holds, unlike an error of a step. */
export class Ending extends Error {
  constructor(readonly what: unknown) {
    super("the task ends");
  }
}

class Failing extends Ending {
  constructor(reason: Reason, message: string, retryDelay: number | undefined) {
    const options = retryDelay === undefined ? {} : { retryDelayMs: retryDelay * 1000 };
    const known = ((): ArchonError => {
      try {
        return errorOfReason(reason, message, options);
      } catch {
        return new ArchonError(message, { ...options, reason, code: "UNKNOWN" });
      }
    })();
    super(known);
  }
}

/** Returns the outcome of a step that ends the attempt; undefined if it goes on. */
export function outcome(name: string, value: never): Answer | Question | string | undefined {
  const fields: Fields = value;
  if (name === "answer") return value;
  if (name === "json") return { json: value };
  if (name !== "question") return undefined;
  return new Question(fields["text"] ?? "", { checkpoint: fields["checkpoint"] ?? "", inputId: fields["input_id"] ?? "" });
}
