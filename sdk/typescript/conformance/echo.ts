/** A role of chaos tests, which notes in a file when each attempt begins and ends, and answers with what it was given. */
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { AgentServer, type Task } from "../src/index.js";

/** Serves ECHO_ROLE as a process of its own, until it is told to stop. */
export async function echo(): Promise<void> {
  const role = process.env["ECHO_ROLE"] ?? "echo";
  const ledger = process.env["ECHO_LEDGER"] ?? "";
  const delayMs = Number(process.env["ECHO_DELAY"] ?? "0") * 1000;
  const note = ({ taskId, attempt }: Task, word: string): void => {
    if (ledger) appendFileSync(ledger, `${word} ${role} ${taskId} ${attempt} ${process.pid}\n`);
  };
  const agent = new AgentServer(role, { description: "answers with what it was given" }, async (task) => {
    note(task, "begin");
    task.write(`${role} is thinking`);
    if (delayMs > 0) await sleep(delayMs, undefined, { signal: task.signal }); // a sleep of 0 ms takes 1 ms
    note(task, "end");
    return `${role}(${task.context.map(({ text }) => text).join(", ")})`;
  });
  await agent.run();
}
