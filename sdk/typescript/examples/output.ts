import { AgentServer } from "@archon-mesh/sdk";

const city = {
  type: "object",
  properties: { name: { type: "string" }, people: { type: "integer" } },
  required: ["name", "people"],
};

/** Answers with JSON that matches the schema of the role; anything else fails with OUTPUT_MISMATCH. */
export const geographer = new AgentServer("geographer", { output: city }, () => ({ name: "Rome", people: 2_750_000 }));
