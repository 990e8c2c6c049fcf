import { describe, expect, it } from "vitest";
import { chainText } from "./chains.js";

const chain = { chain: "orchestrator", first: 1, last: 12, fault: null };

describe("the state of the chains", () => {
  it("counts entries", () => {
    expect(chainText({ complete: true, chains: [chain] })).toBe("12 entries in 1 chain: none was changed, and none is missing.");
    expect(chainText({ complete: true, chains: [chain, { ...chain, first: 5 }] })).toContain("20 entries in 2 chains");
  });

  it("names the first entry that was changed", () => {
    const broken = { ...chain, fault: { number: 7, reason: "it was changed" } };
    expect(chainText({ complete: true, chains: [chain, broken] })).toBe("Entry 7 of the chain orchestrator: it was changed.");
  });
});
