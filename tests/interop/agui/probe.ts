// Runs an agent through the client of AG-UI, which refuses streams that break the protocol. It reads one JSON object a
// line: parameters of runAgent, `text` for a new message, `result` for one of a tool; and writes one for each: messages, state, outcome, events.

import { createInterface } from "node:readline";
import { HttpAgent, type BaseEvent } from "@ag-ui/client";

const [url, token, threadId] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const agent = new HttpAgent({ url, headers, threadId, initialState: { theme: "dark" } });
console.error = (...words: unknown[]) => void process.stderr.write(`${words.join(" ")}\n`);
console.warn = (...words: unknown[]) => void warnings.push(words.join(" "));
const warnings: string[] = [];

for await (const line of createInterface({ input: process.stdin })) {
  const { text, result, abortAt, ...parameters } = JSON.parse(line);
  const events: BaseEvent[] = [];
  let outcome = "none";
  if (text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  if (result) agent.addMessage({ id: crypto.randomUUID(), role: "tool", ...result });
  try {
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => {
        events.push(event);
        if (event.type === abortAt) agent.abortRun();
      },
      onRunFinishedEvent: (params) => void (outcome = params.outcome),
      onRunErrorEvent: ({ event }) => void (outcome = `error ${event.code}`),
    });
  } catch (error) {
    outcome = `refused ${error}`;
  }
  const { messages, state, pendingInterrupts } = agent;
  console.log(JSON.stringify({ outcome, events, messages, state, pendingInterrupts, warnings: warnings.splice(0) }));
}
