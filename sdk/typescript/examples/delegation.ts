import { ArchonError, type Task } from "@archon-mesh/sdk";

/** Asks two roles at the same time, and goes on without one that fails. */
export async function compare(task: Task): Promise<string> {
  const asked = ["optimist", "pessimist"].map(async (role) => {
    try {
      const { text } = await task.delegate(task.text, { role, timeoutMs: 30_000 });
      return `${role}: ${text}`;
    } catch (error) {
      if (error instanceof ArchonError && error.reason === "UNKNOWN_ROLE") return `${role}: not here`;
      throw error;
    }
  });
  return (await Promise.all(asked)).join("\n");
}
