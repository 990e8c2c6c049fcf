/** The client over an orchestrator whose RPCs the tests play. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import {
  ConverseRequestSchema,
  ConverseResponseSchema,
  type SubmitRunRequest,
  type WatchRunRequest,
} from "../src/api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { TaskState } from "../src/api/archon/api/common/v1/common_pb.js";
import { asBuffer } from "../src/grpc.js";
import { Client, NotFound, RunView, setLogger, Unavailable, withDeadline, type RunEvent } from "../src/index.js";
import type { GrpcServer, ServedCall, Service } from "../src/server.js";
import { serveOrchestrator } from "./fixtures/services.js";

setLogger(() => undefined);

let server: GrpcServer;
let client: Client;

async function connect(rpcs: Omit<Service, "descriptor">): Promise<Client> {
  server = await serveOrchestrator(rpcs);
  client = new Client(server.address);
  return client;
}

afterEach(async () => {
  client.close();
  await server.stop(20);
});

function text(value: string): object {
  return { content: { case: "text", value } };
}

const TASK = { taskId: "t1", runId: "r1", attempt: 1 };

function history(): object[] {
  const events = [
    { case: "submitted", value: { roles: ["a"], strategy: 1 } },
    { case: "taskState", value: { role: "a", state: TaskState.SUBMITTED } },
    { case: "dispatched", value: { role: "a", instanceId: "a-1" } },
    { case: "result", value: { role: "a", state: TaskState.COMPLETED, output: [text("the answer")] } },
    { case: "runState", value: { state: TaskState.COMPLETED, answerSeqs: [4n] } },
  ];
  return events.map((event, number) => {
    const isTask = number > 0 && number < 4;
    const time = { seconds: BigInt(1_000 + number) };
    return { runId: "r1", seq: BigInt(number + 1), time, event, ...(isTask && { task: TASK }) };
  });
}

test("a submit carries a key of its own, and is sent again while the orchestrator is unavailable", async () => {
  const requests: SubmitRunRequest[] = [];
  await connect({
    unary: {
      submitRun: (request: SubmitRunRequest) => {
        requests.push(request);
        if (requests.length < 3) throw new Unavailable("starting");
        return { run: { runId: "r1", state: TaskState.SUBMITTED } };
      },
    },
  });
  expect((await client.submit("goal", { roles: ["a"], runTimeoutMs: 1_500 })).runId).toBe("r1");
  expect(new Set(requests.map(({ requestId }) => requestId)).size).toBe(1);
  expect(requests[0]).toMatchObject({ roles: ["a"], timeout: { seconds: 1n, nanos: 500_000_000 } });
});

test("a watch resumes after its last event, and yields each durable event once", async () => {
  const asked: number[] = [];
  await connect({
    streaming: {
      watchRun: async function* ({ afterSeq }: WatchRunRequest) {
        asked.push(Number(afterSeq));
        const rest = history().slice(Number(afterSeq));
        yield { events: rest.slice(0, 2) };
        if (asked.length < 3) throw new Unavailable("moved");
        yield { events: rest.slice(2) };
      },
    },
  });
  const seen: RunEvent[] = [];
  for await (const event of client.watch("r1")) seen.push(event);
  expect(asked).toEqual([0, 2, 4]);
  expect(seen.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
  expect(seen.map(({ kind }) => kind)).toEqual(["submitted", "task_state", "dispatched", "result", "run_state"]);
});

test("a view folds the events of a run, and events that come again change nothing", async () => {
  await connect({
    streaming: {
      watchRun: async function* () {
        yield { events: [...history(), ...history()] };
      },
    },
  });
  const view = new RunView();
  for await (const event of client.watch("r1")) view.apply(event);
  expect([view.state, view.output, view.lastSeq]).toEqual(["COMPLETED", "the answer", 5]);
  const task = view.tasks.get("t1");
  expect([task?.role, task?.state, task?.attempts.length, task?.attempt?.outcome]).toEqual(["a", "COMPLETED", 1, "completed"]);
});

test("run returns the answer, throws the run's failure, and cancels a run that is given up", async () => {
  const cancelled: string[] = [];
  let outcome: object = { state: TaskState.COMPLETED, answers: [{ role: "a", parts: [text("done")] }] };
  let isStuck = false;
  await connect({
    unary: {
      submitRun: () => ({ run: { runId: "r1" } }),
      getRun: () => ({ run: { runId: "r1", ...outcome } }),
      cancelRun: ({ runId }: { runId: string }) => {
        cancelled.push(runId);
        return { run: { runId } };
      },
    },
    streaming: {
      watchRun: async function* (_: unknown, { signal }: ServedCall) {
        yield { events: [] };
        if (isStuck) await sleep(10_000, undefined, { signal }).catch(() => undefined);
      },
    },
  });
  expect(await client.run("goal")).toBe("done");
  outcome = { state: TaskState.FAILED, failure: { code: 5, reason: 11, message: "none" } };
  await expect(client.run("goal")).rejects.toMatchObject({ reason: "UNKNOWN_ROLE" });
  isStuck = true;
  await expect(client.run("goal", { signal: AbortSignal.timeout(100) })).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  await expect(client.run("goal", { timeoutMs: 100 })).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(cancelled).toEqual(["r1", "r1"]);
});

test("a deadline shrinks per hop, and a call that is aborted ends as CANCELLED", async () => {
  const left: (number | undefined)[] = [];
  await connect({
    unary: {
      getRun: async (_: unknown, { context, signal }: ServedCall) => {
        left.push(context.deadline === undefined ? undefined : context.deadline - performance.now());
        await sleep(2_000, undefined, { signal }).catch(() => undefined);
        return { run: { runId: "r1" } };
      },
    },
  });
  await expect(withDeadline(300, () => client.get("r1"))).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(left[0]).toBeLessThanOrEqual(300);
  const given = new AbortController();
  setTimeout(() => given.abort(), 50);
  await expect(client.get("r1", { signal: given.signal })).rejects.toMatchObject({ code: "CANCELLED" });
});

test("many runs share a Converse stream, and a refused command costs itself alone", async () => {
  await connect({
    duplex: {
      converse: (stream) => {
        stream.on("data", (bytes: Buffer) => {
          const { correlationId, command } = fromBinary(ConverseRequestSchema, bytes);
          const goal = command.case === "submit" ? String(command.value.goal[0]?.content.value) : "";
          const reply = goal === "bad" ? { case: "failure", value: { code: 5, reason: 11 } } : { case: "run", value: { runId: goal } };
          const events = goal === "bad" ? [] : [{ runId: goal, seq: 1n, event: { case: "runState", value: {} } }];
          const response = create(ConverseResponseSchema, { replies: [{ correlationId, reply }], events } as never);
          stream.write(asBuffer(toBinary(ConverseResponseSchema, response)));
        });
        stream.on("end", () => stream.end());
      },
    },
  });
  await using stream = client.converse();
  const runs = await Promise.allSettled(["one", "bad", "two"].map((goal) => stream.submit(goal)));
  expect(runs.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  stream.done();
  const seen: string[] = [];
  for await (const { runId } of stream) seen.push(runId);
  expect(seen).toEqual(["one", "two"]);
  await expect(stream.submit("late")).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("typed errors of calls have reason and details; bad input is refused before it is sent", async () => {
  await connect({
    unary: {
      getRun: () => {
        throw new NotFound("no run", { reason: "UNKNOWN_RUN", metadata: { run_id: "r1" } });
      },
    },
  });
  await expect(client.get("r1")).rejects.toMatchObject({ reason: "UNKNOWN_RUN", metadata: { run_id: "r1" }, kind: "input.not_found" });
  await expect(client.submit("x".repeat(5_000_000))).rejects.toMatchObject({ reason: "MESSAGE_TOO_LARGE" });
  await expect(client.submit("x", { strategy: "other" as never })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  await expect(client.pause("r1")).rejects.toMatchObject({ code: "UNIMPLEMENTED", reason: "NOT_SERVED" });
});
