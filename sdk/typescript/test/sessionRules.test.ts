/** The rules of docs/contract.md about sessions that concern an agent: each test names the rule that it holds. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { TaskState } from "../src/api/archon/api/common/v1/common_pb.js";
import { current, remainingMs } from "../src/context.js";
import { fromFailure } from "../src/index.js";
import { gate, pair, rejection, through, until } from "./fixtures/agents.js";

const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("C1: remaining time and trace context travel on the frame", () => {
  test("C1: the deadline of calls within a handler is that of the task, and its trace too", async () => {
    await using pairing = await pair(() => JSON.stringify([remainingMs(), current().traceparent]));
    const { peer } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, {
      input: [{ content: { case: "text", value: "x" } }],
      remaining: { seconds: 7n },
      trace: { traceparent: TRACE },
    });
    const [left, trace] = JSON.parse(String((await peer.result(ref)).output[0]?.content.value)) as [number, string];
    expect(left).toBeGreaterThan(6_000);
    expect(left).toBeLessThanOrEqual(7_000);
    expect(trace).toBe(TRACE);
  });

  test("C1: a task whose time is over fails, whatever its handler does", async () => {
    await using pairing = await pair(() => sleep(30_000, undefined, { ref: false }));
    const { peer } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, { input: [{ content: { case: "text", value: "x" } }], remaining: { nanos: 50_000_000 } });
    const result = await peer.result(ref);
    expect([result.state, fromFailure(result.failure).reason]).toEqual([TaskState.FAILED, "DEADLINE_EXCEEDED"]);
  });
});

describe("C2: credit is an absolute window", () => {
  test("C2: the capacity is split over sessions, and a task above it is rejected with a delay", async () => {
    const release = gate();
    await using pairing = await pair((task) => through(release, task), { maxTasks: 4 });
    const { peer, open } = pairing;
    const other = await open("orchestrator-2");
    const credit = (await peer.receive("credit")).frame.value as { maxTasks: number };
    expect(credit.maxTasks).toBe(2);
    await sleep(2_050); // a lower share counts after 2 s
    for (const name of ["a", "b", "c"]) peer.assign(peer.ref(name), "x");
    const { task, frame, sequence } = await peer.receive("reject");
    expect(task?.taskId).toBe("c");
    expect(sequence).toBe(1n);
    const failure = rejection(frame);
    expect([failure.reason, failure.retryDelayMs]).toEqual(["NO_CAPACITY", 200]);
    other.assign(other.ref("d", { runId: "run-2" }), "x");
    release.open();
    await other.result(other.ref("d", { runId: "run-2" }));
  });

  test("C2: a task that waits for its delegations takes no slot", async () => {
    const handler = async (task: { text: string; delegate: (text: string, to: { role: string }) => Promise<{ text: string }> }) =>
      task.text === "outer" ? (await task.delegate("inner", { role: "other" })).text : "inner done";
    await using pairing = await pair(handler, { maxTasks: 1 });
    const { peer } = pairing;
    const outer = peer.ref("outer");
    peer.assign(outer, "outer");
    const { frame } = await peer.receive("delegate", outer);
    peer.assign(peer.ref("inner"), "x");
    expect((await peer.result(peer.ref("inner"))).state).toBe(TaskState.COMPLETED);
    const { delegationId } = frame.value as { delegationId: string };
    const result = { state: TaskState.COMPLETED, output: [{ content: { case: "text" as const, value: "done" } }] };
    peer.send(peer.stamped(outer, { case: "delegateResult", value: { delegationId, result } }));
    expect((await peer.result(outer)).output[0]?.content.value).toBe("done");
  });
});

test("C3: the loop that runs the tasks echoes the counter", async () => {
  await using pairing = await pair(() => "x");
  const { peer } = pairing;
  peer.heartbeat(41);
  expect((await peer.receive("heartbeat")).frame.value).toMatchObject({ echo: 41n });
});

describe("C4: session loss is not task loss", () => {
  test("C4: an attempt goes on without its stream, and is adopted with its result", async () => {
    const release = gate();
    await using pairing = await pair(async (task) => {
      await through(release, task);
      return "late";
    });
    const { agent, peer, open } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, "x");
    await until(() => agent.tasks.length === 1);
    peer.breakOff();
    await sleep(50);
    const again = await open("orchestrator-1");
    again.adopt(ref);
    expect((await again.receive("adopted", ref)).frame.value).toMatchObject({ lastApplied: 1n });
    release.open();
    expect((await again.result(ref)).output[0]?.content.value).toBe("late");
  });

  test("C4: a newer stream of the same orchestrator replaces the older one", async () => {
    await using pairing = await pair(() => "x");
    await pairing.open("orchestrator-1");
    expect((await pairing.peer.ended())?.reason).toBe("SESSION_REPLACED");
  });

  test("C4: a second open is answered by a failure, and another instance's is refused", async () => {
    await using pairing = await pair(() => "x");
    const { agent, peer } = pairing;
    peer.send({ frame: { case: "open", value: { orchestratorId: "o", instanceId: agent.instanceId, protocol: 1 } } });
    expect(fromFailure((await peer.receive("failure")).frame.value as never).reason).toBe("SESSION_ALREADY_OPEN");
    await expect(pairing.open("orchestrator-2", { instanceId: "other" })).rejects.toThrow(/not other/);
  });

  test("C4: a superseded attempt is cancelled, and its task is not over", async () => {
    const seen: boolean[] = [];
    const handler = async (task: { signal: AbortSignal; isOver: boolean }): Promise<void> => {
      await sleep(10_000, undefined, { signal: task.signal }).catch(() => undefined);
      seen.push(task.isOver);
    };
    await using pairing = await pair(handler);
    const { agent, peer } = pairing;
    for (const [name, reason] of [
      ["t1", "superseded"],
      ["t2", "enough"],
    ] as const) {
      const ref = peer.ref(name);
      peer.assign(ref, "x");
      await until(() => agent.tasks.some((task) => task.taskId === name));
      peer.cancel(ref, reason);
      expect((await peer.result(ref)).state).toBe(TaskState.CANCELED);
    }
    expect(seen).toEqual([false, true]);
  });
});

describe("C5: no sequenced frame is lost", () => {
  test("C5: frames are sent again until they are acknowledged, from the sequence that a gap names", async () => {
    await using pairing = await pair((task) => {
      task.save("one");
      task.save("two");
      return "done";
    });
    const { peer } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, "x");
    expect((await peer.receive("result", ref)).sequence).toBe(3n);
    const gap = { code: 10, reason: 26, metadata: { expected: "2" } };
    peer.send({ task: { ...ref, epoch: 1n }, frame: { case: "failure", value: gap } });
    await until(() => peer.frames.filter(({ frame }) => frame.case === "result").length === 2);
    const sequences = peer.frames.slice(-2).map(({ sequence }) => Number(sequence));
    expect(sequences).toEqual([2, 3]);
  });

  test("C5: a gap in what the orchestrator sends is answered by the expected sequence", async () => {
    const release = gate();
    await using pairing = await pair((task) => through(release, task));
    const { agent, peer } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, "x");
    await until(() => agent.tasks.length === 1);
    peer.send(peer.stamped(ref, { case: "updateMemory", value: {} }, 4));
    const failure = fromFailure((await peer.receive("failure", ref)).frame.value as never);
    expect([failure.reason, failure.metadata["expected"]]).toEqual(["SEQUENCE_GAP", "2"]);
    release.open();
    await peer.result(ref);
  });

  test("C5: a result is parked until it is acknowledged, and an attempt that is not held is rejected", async () => {
    await using pairing = await pair(() => "parked");
    const { peer, open } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, "x");
    await peer.receive("result", ref);
    peer.breakOff();
    const owner = await open("orchestrator-2", { epoch: 2 });
    const taken = owner.ref("t1");
    owner.adopt(taken);
    const { task } = await owner.receive("result", taken);
    expect(task?.epoch).toBe(2n);
    owner.ack(taken, 1);
    await until(() => pairing.agent.server.attempts.size === 0);
    owner.adopt(taken);
    const { frame } = await owner.receive("reject", taken);
    expect(rejection(frame).reason).toBe("NOT_HELD");
  });

  test("C5: a copy of an assignment starts nothing, and one below the epoch is refused", async () => {
    await using pairing = await pair(() => "x", {}, {});
    const { agent, peer, open } = pairing;
    const ref = peer.ref("t1");
    peer.send(peer.assignment(ref, "x"), peer.stamped(ref, { case: "assignTask", value: {} }, 1));
    await peer.result(ref);
    const newer = await open("orchestrator-2", { epoch: 3 });
    newer.assign(newer.ref("t2"), "x");
    await newer.result(newer.ref("t2"));
    peer.assign(peer.ref("t3"), "x");
    const failure = fromFailure((await peer.receive("failure")).frame.value as never);
    expect([failure.reason, failure.metadata["epoch"]]).toEqual(["STALE_EPOCH", "3"]);
    expect(agent.tasks.map((task) => task.taskId)).toEqual(["t1", "t2"]);
  });

  test("C5: what no orchestrator has asked for is offered within some seconds", async () => {
    await using pairing = await pair(() => "parked");
    const { peer, open } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, "x");
    await peer.receive("result", ref);
    peer.breakOff();
    const other = await open("orchestrator-2");
    await until(() => other.frames.some(({ frame }) => frame.case === "result"), 8_000);
    other.send({ task: { ...ref, epoch: 1n }, frame: { case: "discarded", value: {} } });
    await until(() => pairing.agent.server.attempts.size === 0);
  });
});
