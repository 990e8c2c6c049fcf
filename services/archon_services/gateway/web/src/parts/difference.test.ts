import { describe, expect, it } from "vitest";
import { difference } from "./difference.js";

const MARKS = { same: " ", gone: "-", new: "+" } as const;
const drawn = (before: string, after: string): string => difference(before, after).map(({ kind, text }) => MARKS[kind] + text).join("\n");

describe("the difference of two texts", () => {
  it.each([
    ["a\nb\nc", "a\nx\nc", " a\n-b\n+x\n c"],
    ["a", "a\nb", " a\n+b"],
    ["a\nb", "b", "-a\n b"],
    ["", "a", "-\n+a"],
    ["a", "a", " a"],
  ])("of %j and %j is %j", (before, after, expected) => expect(drawn(before, after)).toBe(expected));

  it("has all lines of both texts, in order", () => {
    const before = Array.from({ length: 60 }, (_, index) => String((index * 7) % 5)).join("\n");
    const after = Array.from({ length: 50 }, (_, index) => String((index * 3) % 5)).join("\n");
    const lines = difference(before, after);
    expect(lines.filter((line) => line.kind !== "new").map((line) => line.text).join("\n")).toBe(before);
    expect(lines.filter((line) => line.kind !== "gone").map((line) => line.text).join("\n")).toBe(after);
  });

  it("of large texts does without comparing each pair", () => {
    const large = (mark: string): string => Array.from({ length: 5_000 }, (_, index) => `${mark}${index}`).join("\n");
    expect(difference(large("a"), large("b"))).toHaveLength(10_000);
  });
});
