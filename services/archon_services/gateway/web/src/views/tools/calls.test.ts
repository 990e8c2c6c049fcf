import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { RunRecordSchema } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { figuresOf, quantile } from "./calls.js";

const call = (target: string, ms: number, response: unknown, kind = "tool") =>
  create(RunRecordSchema, { kind, role: "clerk", target, duration: { seconds: 0n, nanos: ms * 1e6 }, responseJson: JSON.stringify(response) });

describe("figures of tools", () => {
  it("count calls and failures, with their times", () => {
    const records = [call("find", 10, { status: "success" }), call("find", 30, { status: "timeout" }), call("find", 20, { error: { message: "x" } }), call("sum", 5, "4"), call("gpt", 900, {}, "model")];
    expect(figuresOf(records)).toEqual([
      { role: "clerk", name: "find", calls: 3, failed: 2, median: 20, p95: 30 },
      { role: "clerk", name: "sum", calls: 1, failed: 0, median: 5, p95: 5 },
    ]);
  });

  it("have quantiles by nearest rank", () => {
    const values = Array.from({ length: 100 }, (_, index) => index + 1);
    expect([quantile(values, 0.5), quantile(values, 0.95), quantile([], 0.95)]).toEqual([50, 95, 0]);
  });
});
