import { Client } from "@archon-mesh/sdk";

/** Submits a run, and prints its events as they come. */
export async function narrate(goal: string): Promise<string> {
  await using client = new Client("127.0.0.1:7100");
  const handle = await client.submit(goal, { budget: { maxTokens: 50_000 }, runTimeoutMs: 600_000 });
  for await (const event of handle.events()) console.log(event.seq, event.kind, event.task?.taskId ?? "");
  const run = await client.get(handle.runId);
  return run.failure === undefined ? run.text : run.failure.message;
}

/** Submits a run and waits for its answer; it is cancelled if that takes longer than a minute. */
export async function ask(goal: string): Promise<string> {
  await using client = new Client("127.0.0.1:7100");
  return await client.run(goal, { roles: ["reviewer"], signal: AbortSignal.timeout(60_000) });
}

/** Prints a line for each change of a task. */
export async function follow(goal: string): Promise<void> {
  await using client = new Client("127.0.0.1:7100");
  const shown = new Map<string, string>();
  for await (const view of (await client.submit(goal)).views()) {
    for (const task of view.tasks.values()) {
      const wait = view.waitingFor(task);
      const line = `${task.label}: ${task.state}${wait === undefined ? "" : `, waits for ${wait.names.join(", ") || wait.kind}`}`;
      if (shown.get(task.taskId) !== line) console.log(line);
      shown.set(task.taskId, line);
    }
  }
}
