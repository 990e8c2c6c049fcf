/** Whatever a handler does, its task ends typed, its neighbours go on, and no rejection is left unhandled. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ArchonError, fromFailure, InvalidArgument, TaskRejected, type Task } from "../src/index.js";
import { TaskState } from "../src/api/archon/api/common/v1/common_pb.js";
import { pair, until } from "./fixtures/agents.js";

const BAD: [string, (task: Task) => unknown, number, string][] = [
  ["throws what is no error", () => Promise.reject("text"), TaskState.FAILED, "INTERNAL"],
  ["throws undefined", () => Promise.reject(undefined), TaskState.FAILED, "INTERNAL"],
  ["returns a number", () => 5, TaskState.FAILED, "UNKNOWN"],
  ["returns other keys", () => ({ txt: "x" }), TaskState.FAILED, "UNKNOWN"],
  ["returns bytes as a text", () => ({ parts: [{ raw: "no bytes" }] }), TaskState.FAILED, "INTERNAL"],
  ["returns a part of nothing", () => ({ parts: [{}] }), TaskState.FAILED, "INVALID_ARGUMENT"],
  ["returns a circle", () => ({ json: circle() }), TaskState.FAILED, "INVALID_ARGUMENT"],
  ["returns usage that is no number", () => ({ text: "x", usage: { inputTokens: Number.NaN } }), TaskState.FAILED, "INVALID_ARGUMENT"],
  ["throws metadata that are no texts", () => Promise.reject(new InvalidArgument("x", { metadata: { a: 1 } as never })), TaskState.FAILED, "INVALID_ARGUMENT"],
  ["throws a delay that is no number", () => Promise.reject(new InvalidArgument("x", { retryDelayMs: Number.NaN })), TaskState.FAILED, "INVALID_ARGUMENT"],
  ["rejects the task", () => Promise.reject(new TaskRejected("not mine")), TaskState.REJECTED, "UNKNOWN"],
  ["returns nothing", () => undefined, TaskState.COMPLETED, ""],
  ["returns a lone surrogate", () => "a\ud800b", TaskState.COMPLETED, ""],
];

function circle(): object {
  const value: Record<string, unknown> = {};
  value["self"] = value;
  return value;
}

test.each(BAD)("a handler that %s", async (_, handler, state, reason) => {
  await using pairing = await pair((task) => (task.text === "bad" ? handler(task) : "good"));
  const { peer } = pairing;
  peer.assign(peer.ref("t1"), "bad");
  peer.assign(peer.ref("t2"), "good");
  const result = await peer.result(peer.ref("t1"));
  expect(result.state).toBe(state);
  if (reason && reason !== "UNKNOWN") expect(fromFailure(result.failure).reason).toBe(reason);
  expect((await peer.result(peer.ref("t2"))).output[0]?.content.value).toBe("good");
});

test("calls that nobody awaits leave no rejection, whether the task ends or is cancelled", async () => {
  const handler = async (task: Task): Promise<string> => {
    void task.delegate("x", { role: "other" });
    void task.askQuestion("Who?");
    void task.send("x", { to: "other" });
    void task.contextChanged();
    void task.request("x", "other");
    if (task.text === "stay") await sleep(10_000, undefined, { signal: task.signal });
    return "done";
  };
  await using pairing = await pair(handler);
  const { agent, peer } = pairing;
  peer.assign(peer.ref("t1"), "go");
  expect((await peer.result(peer.ref("t1"))).state).toBe(TaskState.COMPLETED);
  peer.assign(peer.ref("t2"), "stay");
  await until(() => agent.tasks.length === 2);
  peer.cancel(peer.ref("t2"));
  expect((await peer.result(peer.ref("t2"))).state).toBe(TaskState.CANCELED);
  await sleep(50);
});

test("calls after the end of a task, and with values that are wrong, are typed errors", async () => {
  const errors: unknown[] = [];
  const note = (error: unknown): void => void errors.push(error instanceof ArchonError ? error.code : error);
  let kept: Task | undefined;
  await using pairing = await pair(async (task) => {
    kept = task;
    await task.delegate("x", {}).catch(note);
    await task.delegate("x", { role: "a", timeoutMs: Number.NaN }).catch(note);
    await task.delegate("x", { role: "a", budget: { maxTokens: 1.5 } }).catch(note);
    await task.reserve({ tokens: -1 }).catch(note);
    await task.send("x", { ttlMs: 0 }).catch(note);
    await task.send("x", { type: "shout" as never }).catch(note);
    await task.send(undefined).catch(note);
    await task.ask("x", { inputId: "i".repeat(300) }).catch(note);
    for (const call of [() => task.save("x".repeat(2_000_000)), () => task.publish(" "), () => task.shared]) {
      try {
        call();
      } catch (error) {
        note(error);
      }
    }
    return "x";
  });
  const { peer } = pairing;
  peer.assign(peer.ref("t1"), "x");
  await peer.result(peer.ref("t1"));
  expect(errors).toEqual([...Array<string>(10).fill("INVALID_ARGUMENT"), "FAILED_PRECONDITION"]);
  await expect(kept?.delegate("x", { role: "a" })).rejects.toMatchObject({ code: "CANCELLED" });
  kept?.write("late");
  kept?.save("late");
  kept?.recordToolCall("late", {});
  expect(peer.frames.some(({ frame }) => frame.case === "progress")).toBe(false);
});

test("a stream that is not read is bounded, and its tasks go on", async () => {
  await using pairing = await pair(async (task) => {
    for (let number = 0; number < 20_000; number += 1) task.write("x".repeat(1_000));
    await sleep(50);
    return "end";
  });
  const { peer } = pairing;
  const before = process.memoryUsage().rss;
  peer.assign(peer.ref("t1"), "x");
  expect((await peer.result(peer.ref("t1"))).state).toBe(TaskState.COMPLETED);
  const deltas = peer.frames.filter(({ frame }) => frame.case === "progress").length;
  expect(deltas).toBeGreaterThan(100);
  expect(deltas).toBeLessThan(20_000);
  expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024);
});
