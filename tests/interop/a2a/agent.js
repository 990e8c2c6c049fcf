// An agent of the A2A SDK for JavaScript that knows nothing of Archon: node agent.js BINDING COLLEAGUE_URL COLLEAGUE_TOKEN.
// It prints its address. What it does is the first word of what it is told.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "@a2a-js/sdk/server/express";
import express from "express";

const [binding, colleagueUrl, colleagueToken] = process.argv.slice(2);
const empty = { metadata: {}, filename: "", mediaType: "text/plain" };
const textPart = (value) => ({ ...empty, content: { $case: "text", value } });
const textOf = (parts) => parts.map(({ content }) => (content?.$case === "text" ? content.value : "")).join("");

function message(text, task) {
  return {
    messageId: randomUUID(),
    role: Role.ROLE_AGENT,
    parts: [textPart(text)],
    taskId: task.id,
    contextId: task.contextId,
    extensions: [],
    metadata: {},
    referenceTaskIds: [],
  };
}

/** Asks the colleague, and returns the text of its answer. */
async function ask(text) {
  const client = await new ClientFactory().createFromUrl(colleagueUrl);
  const said = { ...message(text, { id: "", contextId: "" }), role: Role.ROLE_USER };
  const request = { tenant: "", message: said, configuration: undefined, metadata: {} };
  const options = { serviceParameters: { authorization: `Bearer ${colleagueToken}` } };
  let answer = "";
  for await (const event of client.sendMessageStream(request, options)) {
    const { $case, value } = event.payload;
    if ($case === "artifactUpdate") answer += textOf(value.artifact.parts);
    if ($case === "task") answer += value.artifacts.map(({ parts }) => textOf(parts)).join("");
  }
  return answer;
}

class Executor {
  #cancelled = new Set();

  async execute(context, bus) {
    const task = context.task ?? { id: context.taskId, contextId: context.contextId, artifacts: [], history: [context.userMessage], metadata: {} };
    const status = (state, text) => ({ state, message: text && message(text, task), timestamp: new Date().toISOString() });
    const update = (state, text) =>
      bus.publish(AgentEvent.statusUpdate({ taskId: task.id, contextId: task.contextId, status: status(state, text), metadata: {} }));
    const answer = (text, { append = false, last = true } = {}) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId: task.id,
          contextId: task.contextId,
          artifact: { artifactId: "answer", name: "answer", description: "", parts: [textPart(text)], metadata: {}, extensions: [] },
          append,
          lastChunk: last,
          metadata: {},
        }),
      );
    bus.publish(AgentEvent.task({ ...task, status: status(TaskState.TASK_STATE_WORKING) }));
    const text = textOf(context.userMessage.parts);
    if (context.task !== undefined) {
      answer(`painted ${text}`);
    } else {
      switch (text.split(" ")[0]) {
        case "stream":
          for (const [index, piece] of ["one ", "two ", "three"].entries()) answer(piece, { append: index > 0, last: index === 2 });
          break;
        case "delegate":
          answer(`they say: ${await ask("paint the gate")}`);
          break;
        case "ask":
          update(TaskState.TASK_STATE_INPUT_REQUIRED, "Which colour?");
          bus.finished();
          return;
        case "wait":
          while (!this.#cancelled.has(task.id)) await sleep(20);
          update(TaskState.TASK_STATE_CANCELED);
          bus.finished();
          console.log("cancelled");
          return;
        case "fail":
          update(TaskState.TASK_STATE_FAILED, "no paint");
          bus.finished();
          return;
        default:
          answer(`done: ${text}`);
      }
    }
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask(taskId) {
    this.#cancelled.add(taskId);
  }
}

const app = express();
const server = createServer(app);
server.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = {
    name: "painter",
    description: "Paints",
    version: "1.0.0",
    supportedInterfaces: [{ url: binding === "JSONRPC" ? `${url}/rpc` : `${url}/rest`, protocolBinding: binding, tenant: "", protocolVersion: "1.0" }],
    provider: undefined,
    capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    skills: [{ id: "painting", name: "painting", description: "Paints a thing", tags: [], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
    signatures: [],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor());
  const userBuilder = UserBuilder.noAuthentication;
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/rpc", jsonRpcHandler({ requestHandler, userBuilder }));
  app.use("/rest", restHandler({ requestHandler, userBuilder }));
  console.log(url);
});
