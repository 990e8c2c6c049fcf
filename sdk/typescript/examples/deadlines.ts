import { currentTrace, withDeadline, type Client, type Task } from "@archon-mesh/sdk";

/** All calls within it have half of the time that is left for the task. */
export async function inTime(task: Task, client: Client): Promise<string> {
  const half = (task.remainingMs() ?? 60_000) / 2;
  const { traceparent } = currentTrace(); // of the span of this task, which the run's trace continues
  return `${traceparent}: ${await withDeadline(half, () => client.run(task.text))}`;
}
