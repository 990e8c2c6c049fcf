import { AgentServer, messageText, type Task } from "@archon-mesh/sdk";

/** Asks another task of the run, and tells all who listen. */
async function work(task: Task): Promise<string> {
  const reply = await task.request("How far are you?", "builder", { timeoutMs: 10_000 });
  await task.send({ progress: 0.5 }, { type: "status_update" });
  return messageText(reply);
}

/** Answers messages while its handler works. */
export const lead = new AgentServer("lead", { onMessage: (message) => `heard: ${messageText(message)}` }, work);

/** Reads messages itself, until none has come for a second. */
export async function listen(task: Task): Promise<string> {
  const texts: string[] = [];
  for await (const message of task.messages({ topics: ["broadcast"], timeoutMs: 1_000 })) texts.push(messageText(message));
  return texts.join("\n");
}
