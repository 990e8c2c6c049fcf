import { AgentServer } from "@archon-mesh/sdk";

const agent = new AgentServer("shouter", { description: "Writes texts in capitals" }, (task) => task.text.toUpperCase());
await agent.run();
