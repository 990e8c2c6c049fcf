import { expect, test } from "vitest";
import { Strategy } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { submitOf, type Draft } from "./draft.js";

const DRAFT: Draft = { goal: " a goal ", strategy: "", roles: [], sessionId: "", maxTokens: "", maxUsd: "", seconds: "" };

test("a form with a goal alone sets no budget", () => {
  const request = submitOf(DRAFT);
  expect(request.goal).toEqual([{ content: { case: "text", value: "a goal" } }]);
  expect(request.strategy).toBe(0);
  expect(request).not.toHaveProperty("budget");
  expect(request).not.toHaveProperty("timeout");
});

test("a budget has tokens, micro dollars and time", () => {
  const request = submitOf({ ...DRAFT, strategy: String(Strategy.PLAN), maxTokens: "5000", maxUsd: "0.25", seconds: "90" });
  expect(request.strategy).toBe(Strategy.PLAN);
  expect(request.budget).toEqual({ maxTokens: 5000n, maxCostMicroUsd: 250_000n });
  expect(request.timeout?.seconds).toBe(90n);
});
