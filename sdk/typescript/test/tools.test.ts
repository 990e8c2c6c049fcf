/** Shared tools: contract rule C14. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ArchonError, InvalidArgument } from "../src/index.js";
import { FakeAgent } from "../src/testing/index.js";
import { ToolClient, type SharedTool, type SharedToolCall } from "../src/tools/index.js";
import { FakeRegistry } from "./fixtures/services.js";

const calls: unknown[] = [];

const adder: SharedTool = {
  tool: {
    name: "adder",
    inputSchemaJson: JSON.stringify({
      type: "object",
      properties: { a: { type: "number" }, b: { type: "number" } },
      required: ["a", "b"],
      additionalProperties: false,
    }),
  },
  execute: ({ a, b }, call: SharedToolCall) => {
    calls.push([a, b]);
    call.report("adding");
    if (a === 0) throw new InvalidArgument("zero is refused");
    return Number(a) + Number(b);
  },
};

const slow: SharedTool = {
  tool: { name: "slow" },
  timeoutMs: 60_000,
  execute: (_, { signal }) => sleep(20_000, "late", { signal }),
};

let registry: FakeRegistry;
let address: string;
let owner: FakeAgent;

beforeAll(async () => {
  registry = new FakeRegistry();
  address = await registry.start();
  owner = await FakeAgent.start("owner", [], { sharedTools: [adder, slow], settings: { registry: address } });
});

afterAll(async () => {
  await owner.close();
  await registry.stop();
});

describe("C14: shared tools", () => {
  test("C14: a tool is found, leased and executed where it lives, with progress", async () => {
    await using client = new ToolClient(address, { instanceId: "caller-1" });
    expect((await client.find({ words: "adder" }))[0]).toMatchObject({ role: "owner", tool: { name: "adder" } });
    await using tool = client.lease("adder", { task: { taskId: "t", runId: "r", attempt: 1, epoch: 1 } });
    const progress: string[] = [];
    const result = await tool.execute({ a: 1, b: 2 }, { onProgress: (text) => progress.push(text) });
    expect([result.status, result.content, progress]).toEqual(["success", 3, ["adding"]]);
    expect(owner.server.sharedTools.leases()).toHaveLength(1);
  });

  test("C14: a failure of the tool is a result, invalid arguments are an error of the call", async () => {
    await using client = new ToolClient(address);
    await using tool = client.lease("adder");
    expect(await tool.execute({ a: 0, b: 2 })).toMatchObject({ status: "error", errorMessage: "zero is refused" });
    const refused = await tool.execute({ a: "1", b: 2, c: 3 }).catch((error: unknown) => error as ArchonError);
    expect(refused).toMatchObject({ code: "INVALID_ARGUMENT", kind: "tool.invalid_parameters" });
    expect((refused as ArchonError).fieldViolations.map(({ field }) => field).sort()).toEqual(["(all)", "a"]);
    await expect(client.lease("absent").execute({})).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("C14: an idempotency key belongs to tool and task: a repeated call does not act again", async () => {
    await using client = new ToolClient(address);
    const task = { taskId: "t2", runId: "r", attempt: 1, epoch: 1 };
    const before = calls.length;
    for (const attempt of [1, 2]) {
      await using tool = client.lease("adder", { task: { ...task, attempt } });
      expect((await tool.execute({ a: 2, b: 2 }, { idempotencyKey: "k" })).content).toBe(4);
    }
    expect(calls.length).toBe(before + 1);
    await using tool = client.lease("adder", { task });
    await expect(tool.execute({ a: 9, b: 2 }, { idempotencyKey: "k" })).rejects.toMatchObject({ reason: "REQUEST_ID_REUSED" });
  });

  test("C14: a revoked lease ends its call with begun: true, which is sent nowhere else", async () => {
    await using client = new ToolClient(address);
    await using tool = client.lease("slow");
    const ended = tool.execute({}).catch((error: unknown) => error as ArchonError);
    while (owner.server.sharedTools.running === 0) await sleep(5);
    const [lease] = owner.server.sharedTools.leases().filter(({ toolName }) => toolName === "slow");
    expect(owner.server.sharedTools.revokeLease(lease?.leaseId ?? "")).toBe(true);
    expect(await ended).toMatchObject({ reason: "LEASE_EXPIRED", metadata: { begun: "true" } });
  });

  test("C14: a call that is given up is cancelled at its owner; one that is late is a result", async () => {
    await using client = new ToolClient(address);
    await using tool = client.lease("slow");
    await expect(tool.execute({}, { signal: AbortSignal.timeout(100) })).rejects.toBeInstanceOf(ArchonError);
    expect(await tool.execute({}, { timeoutMs: 300 })).toMatchObject({ status: "timeout" });
    while (owner.server.sharedTools.running > 0) await sleep(5);
  });

  test("C14: an owner that drains refuses calls with begun: false", async () => {
    const leaving = await FakeAgent.start("leaving", [], { sharedTools: [adder], settings: { registry: address } });
    await using client = new ToolClient(address);
    await using tool = client.lease("adder", { role: "leaving" });
    await tool.execute({ a: 1, b: 1 });
    leaving.server.sharedTools.drain();
    await expect(tool.execute({ a: 1, b: 1 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await leaving.close();
  });

  test("figures of shared tools are registered, and a revoked tool is not shared any more", async () => {
    const busy = await FakeAgent.start("busy", [], { sharedTools: [adder], settings: { registry: address } });
    const { instanceId } = busy;
    busy.server.sharedTools.revoke("adder");
    while ((registry.instances.get(instanceId)?.tools.length ?? 1) > 0) await sleep(5);
    await busy.close();
  });
});
