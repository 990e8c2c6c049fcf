/** Agents that attach to an orchestrator. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Ready } from "../src/api/archon/api/agent/v1/session_pb.js";
import { PermissionDenied } from "../src/index.js";
import { AttachService } from "../src/api/archon/api/agent/v1/attach_service_pb.js";
import { FakeAgent } from "../src/testing/index.js";
import { until } from "./fixtures/agents.js";
import { FakeAttachService, serve } from "./fixtures/services.js";

function ready(frame: { value?: unknown }): Ready {
  return frame.value as Ready;
}

test("an attached agent keeps one stream spare, and each session has a stream of its own", async () => {
  const service = new FakeAttachService();
  const attach = await service.start();
  const agent = await FakeAgent.start("far", ["one", "two"], { settings: { attach } });
  const first = await service.stream(1);
  const { registration, instanceId, role } = ready((await first.receive("ready")).frame);
  expect([instanceId, role, registration?.role, registration?.address]).toEqual([agent.instanceId, "far", "far", ""]);
  expect(first.token.length).toBeGreaterThanOrEqual(16);
  first.open("orchestrator-1", instanceId);
  expect(ready((await first.receive("ready", 2)).frame).maxTasks).toBe(8);
  const second = await service.stream(2);
  expect(second.token).toBe(first.token);
  await sleep(50);
  expect(service.streams).toHaveLength(2);
  second.open("orchestrator-2", instanceId);
  await service.stream(3);
  for (const [stream, taskId] of [
    [first, "t1"],
    [second, "t2"],
  ] as const) {
    const task = { taskId, runId: "r", attempt: 1, epoch: 1n };
    const input = [{ content: { case: "text" as const, value: "x" } }];
    stream.send({ task, sequence: 1n, frame: { case: "assignTask", value: { input } } });
    const { sequence } = await stream.receive("result");
    stream.send({ task, ack: sequence });
  }
  const stopped = agent.close();
  await first.receive("drain");
  await until(() => service.streams.every(({ hasEnded }) => hasEnded));
  for (const { stream } of service.streams) stream.end();
  await stopped;
  await service.stop();
});

test("attempts go on while the connection is lost, and are adopted on the next one", async () => {
  const service = new FakeAttachService();
  const attach = await service.start();
  const port = Number(attach.split(":")[1]);
  const agent = await FakeAgent.start("far", [() => sleep(600, "late")], { settings: { attach } });
  const { instanceId } = agent;
  const task = { taskId: "t1", runId: "r", attempt: 1, epoch: 1n };
  const first = await service.stream(1);
  first.open("orchestrator-1", instanceId);
  await first.receive("ready", 2);
  first.send({ task, sequence: 1n, frame: { case: "assignTask", value: {} } });
  await until(() => agent.tasks.length === 1);
  await service.stop();
  const next = new FakeAttachService();
  await next.start(port);
  const again = await next.stream(1);
  again.open("orchestrator-1", instanceId);
  again.send({ task, frame: { case: "adoptTask", value: {} } });
  const { sequence } = await again.receive("result");
  again.send({ task, ack: sequence });
  await until(() => agent.server.attempts.size === 0);
  await agent.close();
  await next.stop();
});

test("an agent that is refused does not start, and one that has tools to lend does not attach", async () => {
  const refusing = await serve({
    descriptor: AttachService,
    duplex: {
      attach: () => {
        throw new PermissionDenied("the role is not yours");
      },
    },
  });
  const settings = { attach: refusing.address };
  await expect(FakeAgent.start("far", [], { settings })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  const sharedTools = [{ tool: { name: "t" }, execute: () => 1 }];
  await expect(FakeAgent.start("far", [], { settings, sharedTools })).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await refusing.stop(20);
});
