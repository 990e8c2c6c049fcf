import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { UsageSchema } from "@api/archon/api/common/v1/common_pb.js";
import { cost, duration, tokens } from "./format.js";

describe("durations", () => {
  it.each([
    [0, "0 ms"],
    [850.4, "850 ms"],
    [3_210, "3.2 s"],
    [60_000, "1 min"],
    [250_000, "4 min 10 s"],
    [11_100_000, "3 h 5 min"],
    [187_200_000, "2 d 4 h"],
  ])("shows %d ms as %s", (ms, text) => expect(duration(ms)).toBe(text));
});

describe("usage", () => {
  it("shows costs in dollars, small ones with four digits", () => {
    expect(cost(create(UsageSchema, { costMicroUsd: 1_234n }))).toBe("$0.0012");
    expect(cost(create(UsageSchema, { costMicroUsd: 1_234_567n }))).toBe("$1.23");
    expect(cost(undefined)).toBe("");
  });

  it("adds the tokens that were read and written", () => {
    expect(tokens(create(UsageSchema, { inputTokens: 1_000n, outputTokens: 234n }))).toBe("1,234");
  });
});
