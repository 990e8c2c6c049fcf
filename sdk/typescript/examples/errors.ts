import { ArchonError, ResourceExhausted, type Client } from "@archon-mesh/sdk";

/** Decides by code and reason, never by the message. */
export async function submit(client: Client, goal: string): Promise<string> {
  try {
    return (await client.submit(goal, { roles: ["reviewer"] })).runId;
  } catch (error) {
    if (error instanceof ResourceExhausted && error.retryDelayMs !== undefined) return `again in ${error.retryDelayMs} ms`;
    if (error instanceof ArchonError && error.reason === "UNKNOWN_ROLE") return "no reviewer is there";
    throw error;
  }
}
