/** Streams that misbehave: one that is never read, many that never open, one that is half closed. */
import { fromBinary } from "@bufbuild/protobuf";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { AgentService, SessionResponseSchema } from "../src/api/archon/api/agent/v1/agent_service_pb.js";
import { Health, HealthCheckResponse_ServingStatus as ServingStatus } from "../src/api/grpc/health/v1/health_pb.js";
import { ServerReflection, ServerReflectionRequestSchema, ServerReflectionResponseSchema } from "../src/api/grpc/reflection/v1/reflection_pb.js";
import { create, toBinary } from "@bufbuild/protobuf";
import { agentOptions, Channel } from "../src/channel.js";
import { setLogger } from "../src/index.js";
import { agentPeer } from "../src/security/peer.js";
import { FakeAgent, FrameOrchestrator } from "../src/testing/index.js";
import { pair } from "./fixtures/agents.js";

setLogger(() => undefined);

test("a session that is never read ends, and its agent serves others", async () => {
  const agent = await FakeAgent.start("patient", ["x"]);
  const channel = new Channel(agent.address, agentPeer(""), { options: agentOptions({ fresh: true }) });
  const stream = channel.duplex(AgentService.method.session); // no reader: grpc-js stops taking messages
  let isOver = false;
  stream.on("status", () => {
    isOver = true;
  });
  const junk = Buffer.from([0x0a, 0x03, 0x2a, 0x7f, 0x01]);
  for (let number = 0; number < 150 && !isOver; number += 1) {
    stream.write(Buffer.concat(Array.from({ length: 1_000 }, () => junk)));
    await sleep(10);
  }
  using peer = new FrameOrchestrator(agent.address);
  await peer.open();
  peer.assign(peer.ref("t1"), "x");
  await peer.result(peer.ref("t1"));
  stream.on("data", () => undefined); // its end comes once it is read, or is broken off
  for (let waited = 0; waited < 12_000 && !isOver; waited += 50) await sleep(50);
  expect(isOver).toBe(true);
  channel.close();
  await agent.close();
}, 30_000);

test("streams that never open make room for one that does", async () => {
  const agent = await FakeAgent.start("patient");
  const channel = new Channel(agent.address, agentPeer(""));
  const ended: number[] = [];
  for (let number = 0; number < 70; number += 1) {
    const stream = channel.duplex(AgentService.method.session);
    stream.on("data", () => undefined).on("status", ({ code }: { code: number }) => ended.push(code));
    stream.write(Buffer.alloc(0));
  }
  using peer = new FrameOrchestrator(agent.address);
  await peer.open();
  expect(ended.length).toBeGreaterThanOrEqual(5);
  expect(new Set(ended)).toEqual(new Set([8]));
  channel.close();
  await agent.close();
});

test("a stream that its orchestrator half closes ends with OK, after the frames that wait", async () => {
  await using pairing = await pair(() => "x");
  const { peer } = pairing;
  peer.heartbeat(1);
  peer.halfClose();
  expect(await peer.ended()).toBeUndefined();
  expect(peer.frames.at(-1)?.frame.case).toBe("heartbeat");
});

test("health and reflection are served; a draining agent is NOT_SERVING", async () => {
  const agent = await FakeAgent.start("healthy");
  using channel = new Channel(agent.address, agentPeer(""));
  const check = async (service: string): Promise<ServingStatus> =>
    (await channel.unary(Health.method.check, { service })).status;
  expect(await check("")).toBe(ServingStatus.SERVING);
  expect(await check("archon.api.agent.v1.AgentService")).toBe(ServingStatus.SERVING);
  await expect(check("other")).rejects.toMatchObject({ code: "NOT_FOUND" });
  const stream = channel.duplex(ServerReflection.method.serverReflectionInfo);
  const answers: string[] = [];
  stream.on("data", (bytes: Buffer) => {
    const { messageResponse } = fromBinary(ServerReflectionResponseSchema, bytes);
    answers.push(messageResponse.case ?? "");
    if (messageResponse.case === "listServicesResponse") {
      answers.push(...messageResponse.value.service.map(({ name }) => name));
    }
  });
  for (const messageRequest of [
    { case: "listServices" as const, value: "" },
    { case: "fileContainingSymbol" as const, value: "archon.api.agent.v1.AgentService" },
    { case: "fileContainingSymbol" as const, value: "nothing" },
  ]) {
    stream.write(toBinary(ServerReflectionRequestSchema, create(ServerReflectionRequestSchema, { messageRequest })));
  }
  stream.end();
  await new Promise((resolve) => stream.on("status", resolve));
  expect(answers).toContain("archon.api.tool.v1.ToolService");
  expect(answers.slice(-2)).toEqual(["fileDescriptorResponse", "errorResponse"]);
  const statuses: number[] = [];
  const watching = (async (): Promise<void> => {
    for await (const { status } of channel.serverStream(Health.method.watch, { service: "" })) statuses.push(status);
  })().catch(() => undefined);
  await sleep(50);
  await agent.close();
  await watching;
  expect(statuses).toEqual([ServingStatus.SERVING, ServingStatus.NOT_SERVING]);
});

test("a message that a session sends is no more than its peer takes", async () => {
  await using pairing = await pair((task) => "x".repeat(Number(task.text)), {}, { maxMessageBytes: 200_000 });
  const { peer } = pairing;
  const sizes: number[] = [];
  const parse = fromBinary;
  expect(parse(SessionResponseSchema, new Uint8Array(0)).frames).toEqual([]);
  for (let number = 0; number < 10; number += 1) peer.assign(peer.ref(`t${number}`), "60000");
  for (let number = 0; number < 10; number += 1) {
    sizes.push(String((await peer.result(peer.ref(`t${number}`))).output[0]?.content.value).length);
  }
  expect(sizes).toEqual(Array(10).fill(60_000));
});
