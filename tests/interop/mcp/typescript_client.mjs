// The official client in TypeScript calls roles of a mesh: node typescript_client.mjs SDK_FOLDER URL
// It prints one JSON object.
const [sdk, url] = process.argv.slice(2);
const { Client } = await import(`${sdk}/dist/esm/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/dist/esm/client/streamableHttp.js`);
const { ElicitRequestSchema } = await import(`${sdk}/dist/esm/types.js`);

const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { answer: "blue" } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const progress = [];
const text = async (goal) => {
  const call = { name: "clerk", arguments: { goal } };
  const result = await client.callTool(call, undefined, { onprogress: (each) => progress.push(each.message) });
  return result.content.map((block) => block.text).join("");
};
const painted = await text("paint");
const answered = await text("ask");
const { resources } = await client.listResources();
const read = await client.readResource({ uri: resources[0].uri });
await client.close();
console.log(JSON.stringify({ tools, painted, answered, asked, progress, read: read.contents[0].mimeType }));
