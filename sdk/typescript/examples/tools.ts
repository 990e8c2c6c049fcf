import { AgentServer, type Task } from "@archon-mesh/sdk";
import { ToolClient, type SharedTool } from "@archon-mesh/sdk/tools";

const inputSchemaJson = JSON.stringify({ type: "object", properties: { city: { type: "string" } }, required: ["city"] });

const weather: SharedTool = {
  tool: { name: "weather", description: "The weather in a city", inputSchemaJson, idempotent: true },
  execute: ({ city }, call) => {
    call.report(`looking at ${String(city)}`);
    return { city, degrees: 21 };
  },
};

/** Lends a tool: other agents execute it here. */
export const meteorologist = new AgentServer("meteorologist", { sharedTools: [weather] }, (task) => task.text);

const tools = new ToolClient(process.env["ARCHON_REGISTRY"] ?? "127.0.0.1:7101");

/** Executes a tool of another agent. */
export async function pack(task: Task): Promise<string> {
  await using tool = tools.lease("weather", { task: task.ref });
  const { status, content, errorMessage } = await tool.execute({ city: task.text }, { idempotencyKey: "weather" });
  return status === "success" ? JSON.stringify(content) : errorMessage;
}
