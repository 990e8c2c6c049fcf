/** The rules of docs/contract.md about tasks that concern an agent: each test names the rule that it holds. */
import { create, toBinary } from "@bufbuild/protobuf";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { OrchestratorFrameSchema } from "../src/api/archon/api/agent/v1/session_pb.js";
import { SessionRequestSchema } from "../src/api/archon/api/agent/v1/agent_service_pb.js";
import { TaskState } from "../src/api/archon/api/common/v1/common_pb.js";
import { QuestionKind } from "../src/api/archon/api/common/v1/question_pb.js";
import { fromFailure, Question } from "../src/index.js";
import { encodeVarint } from "../src/wire.js";
import { gate, pair, rejection, through, until } from "./fixtures/agents.js";

test("C6: items are published before the answer, and the answer may say that it is not", async () => {
  await using pairing = await pair((task) => {
    task.publish({ text: "so far", policy: "tool_results" });
    return { text: "end", publish: false, items: [{ text: "all", policy: "full_history" }] };
  });
  const { peer } = pairing;
  const ref = peer.ref("t1");
  peer.assign(ref, "x");
  expect((await peer.receive("publish", ref)).frame.value).toMatchObject({ policy: 2 });
  const result = await peer.result(ref);
  expect([result.noPublish, result.items[0]?.policy]).toEqual([true, 3]);
});

describe("C7: waiting for a person", () => {
  test("C7: a question ends the attempt with its checkpoint, and the answer comes with resume", async () => {
    await using pairing = await pair((task) =>
      task.inputText ? `${task.inputText} after ${Buffer.from(task.checkpoint).toString()}` : new Question("Which?", { checkpoint: "c" }),
    );
    const { peer } = pairing;
    peer.assign(peer.ref("t1"), "x");
    const asked = await peer.result(peer.ref("t1"));
    expect([asked.state, asked.inputRequest?.inputId]).toEqual([TaskState.INPUT_REQUIRED, "q1"]);
    const next = peer.ref("t1", { attempt: 2 });
    const resume = { checkpoint: asked.checkpoint, inputs: [{ content: { case: "text" as const, value: "blue" } }] };
    peer.assign(next, { input: [{ content: { case: "text", value: "x" } }], resume });
    expect((await peer.result(next)).output[0]?.content.value).toBe("blue after c");
  });

  test("C7: ask stops the clock of the attempt, and its answer has the decision", async () => {
    await using pairing = await pair(async (task) => {
      const { text, decision } = await task.askQuestion("May I?", { isApproval: true, inputId: "q" });
      return `${decision}: ${text}`;
    });
    const { peer } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, { input: [{ content: { case: "text", value: "x" } }], remaining: { nanos: 200_000_000 } });
    expect((await peer.receive("ask", ref)).frame.value).toMatchObject({ inputId: "q", kind: QuestionKind.APPROVAL });
    await sleep(400);
    const value = { inputId: "q", decision: 1, parts: [{ content: { case: "text" as const, value: "go on" } }] };
    peer.send(peer.stamped(ref, { case: "input", value }));
    expect((await peer.result(ref)).output[0]?.content.value).toBe("approve: go on");
  });
});

test("C8: a delegation is answered once, its failure is thrown typed, and one that is given up is cancelled", async () => {
  await using pairing = await pair(async (task) => {
    const given = new AbortController();
    const unneeded = task.delegate("a", { role: "slow", signal: given.signal });
    given.abort();
    const codes: unknown[] = [await unneeded.catch((error: { code: string }) => error.code)];
    codes.push(await task.delegate("b", { capability: "fails" }).catch((error: { reason: string }) => error.reason));
    return JSON.stringify(codes);
  });
  const { peer } = pairing;
  const ref = peer.ref("t1");
  peer.assign(ref, "x");
  expect((await peer.receive("cancelDelegation", ref)).frame.value).toMatchObject({ delegationId: "d1" });
  const { frame } = await peer.receive("delegate", ref);
  const second = frame.value as { delegationId: string };
  const id = second.delegationId === "d1" ? ((await peer.receive("delegate", ref)).frame.value as typeof second).delegationId : second.delegationId;
  const result = { state: TaskState.FAILED, failure: { code: 5, reason: 12, message: "none" } };
  peer.send(peer.stamped(ref, { case: "delegateResult", value: { delegationId: id, result } }));
  expect((await peer.result(ref)).output[0]?.content.value).toBe('["CANCELLED","UNKNOWN_CAPABILITY"]');
});

test("C9: more of the budget is asked for before a call that needs it, and usage travels on the result", async () => {
  await using pairing = await pair(async (task) => {
    await task.reserve({ tokens: 50 });
    task.recordModelCall("m", { usage: { inputTokens: 30, outputTokens: 20 } });
    return (await task.reserve({ tokens: 100 }).catch((error: { reason: string }) => error.reason)) ?? "granted";
  });
  const { peer } = pairing;
  const ref = peer.ref("t1");
  peer.assign(ref, { input: [{ content: { case: "text", value: "x" } }], budget: { maxTokens: 60n } });
  const request = (await peer.receive("budgetRequest", ref)).frame.value as { requestId: string; budget: { maxTokens: bigint } };
  expect(request.budget.maxTokens).toBe(90n);
  const failure = { code: 8, reason: 42, message: "insufficient budget" };
  peer.send(peer.stamped(ref, { case: "budgetGrant", value: { requestId: request.requestId, failure } }));
  const result = await peer.result(ref);
  expect(result.usage).toMatchObject({ inputTokens: 30n, outputTokens: 20n, modelCalls: 1n });
  expect(peer.frames.some(({ frame }) => frame.case === "progress" && frame.value.usage !== undefined)).toBe(true);
});

describe("C10: one frame never fails a batch", () => {
  test("C10: a frame that cannot be decoded is refused, and its neighbours are served", async () => {
    await using pairing = await pair(() => "x");
    const { peer } = pairing;
    const good = toBinary(
      SessionRequestSchema,
      create(SessionRequestSchema, { frames: [create(OrchestratorFrameSchema, peer.assignment(peer.ref("t1"), "x"))] }),
    );
    const bad = Uint8Array.of(0x0a, 0x03, 0x2a, 0x7f, 0x01);
    peer.sendRaw(Buffer.concat([bad, good]));
    expect(fromFailure((await peer.receive("failure")).frame.value as never).reason).toBe("MALFORMED_MESSAGE");
    expect((await peer.result(peer.ref("t1"))).state).toBe(TaskState.COMPLETED);
  });

  test("C10: a result that is too large fails its task alone", async () => {
    await using pairing = await pair((task) => "x".repeat(task.text === "big" ? 200_000 : 10), {}, { maxMessageBytes: 131_072 });
    const { peer } = pairing;
    peer.assign(peer.ref("t1"), "big");
    peer.assign(peer.ref("t2"), "small");
    expect(fromFailure((await peer.result(peer.ref("t1"))).failure).reason).toBe("FRAME_TOO_LARGE");
    expect((await peer.result(peer.ref("t2"))).state).toBe(TaskState.COMPLETED);
  });

  test("C10: a message of too many frames ends the stream, and its tasks stay", async () => {
    await using pairing = await pair(() => "x");
    const { peer } = pairing;
    peer.sendRaw(Buffer.alloc(2 * 10_001, Buffer.from([0x0a, 0x00])));
    expect((await peer.ended())?.code).toBe("RESOURCE_EXHAUSTED");
  });

  test("C10: answers of several tasks share messages, and order holds per task", async () => {
    await using pairing = await pair((task) => {
      for (let number = 0; number < 5; number += 1) task.save(`${number}`);
      return "x";
    });
    const { peer } = pairing;
    const refs = Array.from({ length: 8 }, (_, number) => peer.ref(`t${number}`));
    peer.send(...refs.map((ref) => peer.assignment(ref, "x")));
    await Promise.all(refs.map((ref) => peer.result(ref)));
    for (const { taskId } of refs) {
      const own = peer.frames.filter(({ task, sequence }) => task?.taskId === taskId && sequence > 0n);
      expect(own.map(({ sequence }) => Number(sequence))).toEqual([1, 2, 3, 4, 5, 6]);
    }
  });
});

describe("C11: negotiation", () => {
  test("C11: ready has the intersection, and frames that were not agreed to are not sent", async () => {
    const handler = async (task: { write: (text: string) => void; delegate: (text: string, to: { role: string }) => Promise<unknown> }) => {
      task.write("delta");
      return task.delegate("x", { role: "other" }).catch((error: { code: string }) => error.code);
    };
    await using pairing = await pair(handler as never, {}, { features: ["cancel", "later"], protocol: 2 });
    const { peer } = pairing;
    expect(peer.frames[0]?.frame.value).toMatchObject({ features: ["cancel"], protocol: 1 });
    peer.assign(peer.ref("t1"), "x");
    expect((await peer.result(peer.ref("t1"))).output[0]?.content.value).toBe("UNIMPLEMENTED");
    expect(peer.frames.some(({ frame }) => frame.case === "progress")).toBe(false);
  });

  test("C11: an older protocol ends the stream, an unknown arm only its frame", async () => {
    await using pairing = await pair(() => "x");
    const { peer } = pairing;
    peer.sendRaw(Buffer.concat([Uint8Array.of(0x0a, 0x04), encodeVarint(99 * 8 + 2), Uint8Array.of(0x01, 0x00)]));
    expect(fromFailure((await peer.receive("failure")).frame.value as never).reason).toBe("UNKNOWN_FRAME");
    peer.assign(peer.ref("t1"), "x");
    await peer.result(peer.ref("t1"));
    await expect(pairing.open("orchestrator-2", { protocol: 0 })).rejects.toThrow(/protocol/);
  });
});

test("C12: calls are recorded in sequence before the frame that rests on them", async () => {
  await using pairing = await pair((task) => {
    task.recordModelCall("m", { request: { q: 1 }, response: "a", usage: { inputTokens: 1 } });
    task.recordToolCall("t", { arguments: {}, result: 2 });
    return "x";
  });
  const { peer } = pairing;
  const ref = peer.ref("t1");
  peer.assign(ref, "x");
  const { sequence } = await peer.receive("result", ref);
  const records = peer.frames.filter(({ frame }) => frame.case === "record");
  expect(records.map(({ sequence: number }) => Number(number))).toEqual([1, 2]);
  expect([sequence, (records[0]?.frame.value as { requestJson: string }).requestJson]).toEqual([3n, '{"q":1}']);
});

test("C13: messages are sent once, read in order without copies, and the result says which were read", async () => {
  await using pairing = await pair(async (task) => {
    const id = await task.send({ key: 1 }, { to: "other", messageId: "own" });
    const texts: unknown[] = [id];
    for await (const { content } of task.messages({ topics: ["broadcast"] })) if (texts.push(content) === 3) break;
    return JSON.stringify(texts);
  });
  const { peer } = pairing;
  const ref = peer.ref("t1");
  peer.assign(ref, "x");
  await peer.receive("sendMessage", ref);
  peer.send(peer.stamped(ref, { case: "messageResult", value: { messageId: "own", seq: 5n } }));
  expect((await peer.receive("subscribe", ref)).frame.value).toMatchObject({ topics: ["broadcast"] });
  for (const seq of [6n, 6n, 8n]) {
    const content = [{ content: { case: "text" as const, value: `m${seq}` } }];
    peer.send(peer.stamped(ref, { case: "message", value: { messageId: `m${seq}`, seq, content } }));
  }
  const result = await peer.result(ref);
  expect(result.output[0]?.content.value).toBe('["own","m6","m8"]');
  expect(result.messagesRead).toBe(8n);
});

describe("Leaving", () => {
  test("Leaving: a draining agent says so, gives no credit, finishes its tasks and ends with OK", async () => {
    const release = gate();
    await using pairing = await pair(async (task) => {
      await through(release, task);
      return "finished";
    });
    const { agent, peer } = pairing;
    const ref = peer.ref("t1");
    peer.assign(ref, "x");
    await until(() => agent.tasks.length === 1);
    const stopped = agent.server.stop({ graceMs: 5_000 });
    await peer.receive("drain");
    expect((await peer.receive("credit")).frame.value).toMatchObject({ maxTasks: 0 });
    peer.assign(peer.ref("t2"), "x");
    const { frame } = await peer.receive("reject");
    expect(rejection(frame).reason).toBe("DRAINING");
    release.open();
    expect((await peer.result(ref)).output[0]?.content.value).toBe("finished");
    expect(await peer.ended()).toBeUndefined();
    await stopped;
  });
});
