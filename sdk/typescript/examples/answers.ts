import { errorOfReason, TaskRejected, type Answer, type Task } from "@archon-mesh/sdk";

/** Answers with a summary. What it has found so far reaches roles that work at the same time. */
export async function summarise(task: Task): Promise<Answer> {
  const answers = task.context.map(({ role, text }) => `${role}: ${text}`);
  if (answers.length === 0) throw new TaskRejected("there is nothing to summarise");
  task.write("Reading ...\n"); // watchers see it at once; the answer is what is returned
  task.publish(`I read ${answers.length} answers`);
  const reply = await callModel(answers.join("\n\n"), task.signal);
  task.recordModelCall("small-model", {
    request: answers,
    response: reply.text,
    durationMs: reply.ms,
    usage: { inputTokens: reply.read, outputTokens: reply.written },
  });
  return { text: reply.text, metadata: { "com.example/language": "en" } };
}

interface Reply {
  readonly text: string;
  readonly ms: number;
  readonly read: number;
  readonly written: number;
}

async function callModel(text: string, signal: AbortSignal): Promise<Reply> {
  const response = await fetch("http://127.0.0.1:8080/complete", { method: "POST", body: text, signal });
  if (response.status === 429) throw errorOfReason("RESOURCE_EXHAUSTED", "the model is busy", { retryDelayMs: 2_000 });
  return (await response.json()) as Reply;
}
