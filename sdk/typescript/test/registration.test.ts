/** The registration of an agent is kept alive, through outages and refusals; a process drains on SIGTERM. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { AgentServer, InvalidArgument, PermissionDenied, setLogger } from "../src/index.js";
import { FakeAgent, FrameOrchestrator } from "../src/testing/index.js";
import { until } from "./fixtures/agents.js";
import { FakeRegistry } from "./fixtures/services.js";

setLogger(() => undefined);

test("an agent registers, renews its lease on a stream, registers again once it is lost, and deregisters", async () => {
  const registry = new FakeRegistry();
  const address = await registry.start();
  const agent = await FakeAgent.start("kept", [], { settings: { registry: address, ttlMs: 1_000 } });
  expect([...registry.instances.values()][0]).toMatchObject({ role: "kept", address: agent.address, version: "0.1.0" });
  await until(() => registry.calls.filter((call) => call === "KeepAlive").length >= 2);
  registry.instances.clear();
  await until(() => registry.instances.size === 1);
  expect(registry.calls.filter((call) => call === "RegisterInstance")).toHaveLength(2);
  await agent.close();
  expect([registry.calls.at(-1), registry.instances.size]).toEqual(["DeregisterInstance", 0]);
  await registry.stop();
});

test("an agent serves while the registry is away, and registers once it is back", async () => {
  const registry = new FakeRegistry();
  const address = await registry.start();
  const agent = await FakeAgent.start("kept", ["still here"], { settings: { registry: address, ttlMs: 1_000 } });
  await registry.stop();
  await sleep(1_200);
  using peer = new FrameOrchestrator(agent.address);
  await peer.open();
  peer.assign(peer.ref("t1"), "x");
  expect((await peer.result(peer.ref("t1"))).output[0]?.content.value).toBe("still here");
  const again = new FakeRegistry();
  await again.start(Number(address.split(":")[1]));
  await until(() => again.instances.size === 1, 8_000);
  await agent.close();
  await again.stop();
});

test("the log names an outage of the registry once, and its end; a fake agent and a refusal cause no warning", async () => {
  const lines: string[] = [];
  setLogger((level, message) => void lines.push(`${level} ${message}`));
  const registry = new FakeRegistry();
  const address = await registry.start();
  const agent = await FakeAgent.start("logged", [], { settings: { registry: address, ttlMs: 1_000 } });
  await (await FakeAgent.start("alone")).close();
  registry.refusal = new PermissionDenied("the role is not yours");
  await expect(FakeAgent.start("refused", [], { settings: { registry: address } })).rejects.toThrow("not yours");
  expect(lines).toEqual([]);
  await registry.stop();
  await until(() => lines.some((line) => line.includes("is not registered, trying again: No connection established")), 8_000);
  const again = new FakeRegistry();
  await again.start(Number(address.split(":")[1]));
  await until(() => lines.at(-1) === `info ${agent.instanceId} is registered`, 8_000);
  const breaks = lines.filter((line) => line.includes("the keepalive stream broke"));
  expect(breaks).toEqual([...new Set(breaks)]);
  await agent.close();
  await again.stop();
  setLogger(() => undefined);
});

test("a registration that is refused fails the start typed, and leaves nothing behind", async () => {
  const registry = new FakeRegistry();
  const address = await registry.start();
  registry.refusal = new PermissionDenied("the role is not yours");
  const agent = new AgentServer("refused", { settings: { registry: address, attach: "" } }, () => "x");
  await expect(agent.start()).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  expect(await new AgentServer("refused", { settings: { registry: address, attach: "" } }, () => "x").run()).toBe(1);
  process.exitCode = 0;
  await registry.stop();
});

test("names that registries refuse, schemas and settings that are wrong are typed errors", () => {
  const make = (role: string, options = {}) => () => new AgentServer(role, options, () => "x");
  expect(make("No Role")).toThrow(InvalidArgument);
  expect(make("ok", { version: "v1" })).toThrow(InvalidArgument);
  expect(make("ok", { capabilities: [{ id: "UPPER" }] })).toThrow(InvalidArgument);
  expect(make("ok", { output: { type: "nonsense" } })).toThrow(InvalidArgument);
  expect(make("ok", { maxTasks: 0 })).toThrow(InvalidArgument);
  process.env["ARCHON_TTL"] = "soon";
  expect(make("ok")).toThrow(/ARCHON_TTL/);
  delete process.env["ARCHON_TTL"];
  process.env["ARCHON_REGISTRY"] = "127.0.0.1";
  expect(make("ok")).toThrow("environment variable ARCHON_REGISTRY is '127.0.0.1': not host:port");
  delete process.env["ARCHON_REGISTRY"];
});

test("a port that is taken is a typed error", async () => {
  const agent = await FakeAgent.start("first");
  const port = Number(agent.address.split(":")[1]);
  await expect(FakeAgent.start("second", [], { settings: { port } })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await agent.close();
});

test("a process finishes its task after SIGTERM, and ends with 0", async () => {
  const env = { ...process.env, ARCHON_LOG_LEVEL: "error" };
  const child = spawn(process.execPath, ["dist/conformance/subject.js", "agent"], { env, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => void child.once("exit", resolve));
  const line = await first(createInterface({ input: child.stdout }));
  const { address } = (JSON.parse(line) as { ready: { address: string } }).ready;
  using peer = new FrameOrchestrator(address);
  await peer.open();
  peer.assign(peer.ref("t1"), '[{"sleep": 0.5}, {"answer": "finished"}]');
  await sleep(100);
  child.kill("SIGTERM");
  await peer.receive("drain");
  expect((await peer.result(peer.ref("t1"))).output[0]?.content.value).toBe("finished");
  expect(await ended).toBe(0);
});

async function first(lines: AsyncIterable<string>): Promise<string> {
  for await (const line of lines) return line;
  throw new Error("there is no line");
}
