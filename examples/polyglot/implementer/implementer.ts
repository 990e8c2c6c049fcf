// The third role, in TypeScript: code for the design.
import { AgentServer } from "@archon-mesh/sdk";
import { tracing } from "./tracing.js";

const agent = new AgentServer(
  "implementer",
  { description: "Implements designs.", dependsOn: ["designer"] },
  (task) => {
    const design = task.context.map((item) => item.text).join("\n");
    return design
      .split("\n")
      .map((line) => `function ${line.replace(/[^a-z]+/gi, "_").toLowerCase()}() {}`)
      .join("\n");
  },
);

const flush = tracing();
const code = await agent.run();
await flush();
process.exit(code);
