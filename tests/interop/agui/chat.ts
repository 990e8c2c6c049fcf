// A front end of an agent of the mesh: node chat.ts URL TOKEN TEXT ANSWER. It answers each question with ANSWER.

import { HttpAgent, type Interrupt } from "@ag-ui/client";

const [url, token, text, answer] = process.argv.slice(2);
const agent = new HttpAgent({ url, headers: token ? { Authorization: `Bearer ${token}` } : {} });
let asked: Interrupt[] = [];

agent.subscribe({
  onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
  onToolCallStartEvent: ({ event }) => console.log(`[${event.toolCallName}]`),
  onRunErrorEvent: ({ event }) => console.log(`failed: ${event.code} ${event.message}`),
  onRunFinishedEvent: (params) => {
    asked = params.outcome === "interrupt" ? params.interrupts : [];
  },
});

agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
await agent.runAgent();
while (asked.length > 0) {
  console.log(asked.map((interrupt) => interrupt.message).join("\n"));
  const resume = asked.map(({ id, reason }) => ({
    interruptId: id,
    status: "resolved" as const,
    payload: ["confirmation", "tool_call"].includes(reason) ? { approved: answer === "yes" } : answer,
  }));
  await agent.runAgent({ resume });
}
console.log();
