/** Spans of tasks and of calls, by OpenTelemetry's API. */
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { currentTrace, InvalidArgument } from "../src/index.js";
import { pair } from "./fixtures/agents.js";

const exporter = new InMemorySpanExporter();
const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
});

afterAll(() => {
  context.disable();
  trace.disable();
});

test("a task has a span below the frame's trace, which its calls continue", async () => {
  const traces: string[] = [];
  await using pairing = await pair((task) => {
    traces.push(currentTrace().traceparent);
    task.recordModelCall("m", { usage: { inputTokens: 3, outputTokens: 4, costMicroUsd: 5 } });
    if (task.text === "fail") throw new InvalidArgument("no");
    return "x";
  });
  const { peer } = pairing;
  for (const text of ["ok", "fail"]) {
    const traceparent = `00-${TRACE_ID}-b7ad6b7169203331-01`;
    peer.assign(peer.ref(text), { input: [{ content: { case: "text", value: text } }], trace: { traceparent } });
    await peer.result(peer.ref(text));
  }
  const [good, bad] = exporter.getFinishedSpans();
  expect(good?.name).toBe("invoke_agent tester");
  expect(good?.spanContext().traceId).toBe(TRACE_ID);
  expect(good?.attributes).toMatchObject({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "tester",
    "gen_ai.usage.input_tokens": 3,
    "archon.task.id": "ok",
    "archon.task.state": "completed",
  });
  expect(traces[0]).toBe(`00-${TRACE_ID}-${good?.spanContext().spanId}-01`);
  expect(bad?.attributes).toMatchObject({ "error.type": "INVALID_ARGUMENT", "archon.task.state": "failed" });
});
