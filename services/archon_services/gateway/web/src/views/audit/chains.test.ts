import { describe, expect, it } from "vitest";
import { chainText } from "./chains.js";

const chain = { chain: "orchestrator", first: 1, last: 12, sealed: 10, fault: null };

describe("the state of the chains", () => {
  it("counts entries and seals", () => {
    expect(chainText({ complete: true, chains: [chain] })).toBe("12 entries in 1 chain: none was changed or removed; all but the last 2 are sealed.");
    expect(chainText({ complete: true, chains: [{ ...chain, sealed: 12 }, { ...chain, first: 5, sealed: 12 }] })).toContain("20 entries in 2 chains");
  });

  it("names the first entry that was changed", () => {
    const broken = { ...chain, fault: { number: 7, reason: "it was changed" } };
    expect(chainText({ complete: true, chains: [chain, broken] })).toBe("Entry 7 of the chain orchestrator: it was changed.");
  });
});
