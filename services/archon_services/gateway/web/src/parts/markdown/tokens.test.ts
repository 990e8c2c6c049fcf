import { describe, expect, it } from "vitest";
import { blocksOf, headingLevels, otherHost, safeUrl, unescaped } from "./tokens.js";

describe("links", () => {
  it.each([
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "javascript&colon;alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:x",
    "blob:https://example.com/1",
    "file:///etc/passwd",
    "//example.com/x",
    "/logout",
    "x",
    "",
    "https://user:secret@example.com",
  ])("leads nowhere from %j", (address) => expect(safeUrl(address)).toBeUndefined());

  it.each(["https://example.com/", "http://127.0.0.1:1/a?b=c#d", "mailto:ann@example.com"])("leads to %s", (address) =>
    expect(safeUrl(address)).toBe(address),
  );

  it("names the host that a text hides", () => {
    expect(otherHost("https://bank.example", "https://evil.example/x")).toBe("evil.example");
    expect(otherHost("bank.example", "https://www.bank.example/")).toBe("");
    expect(otherHost("the report", "https://evil.example/x")).toBe("");
  });
});

describe("blocks", () => {
  it("keeps markup as a token of its own kind, never as another one", () => {
    const kinds = (text: string): string[] => (blocksOf(text) ?? []).map((token) => token.type).filter((kind) => kind !== "space");
    expect(kinds("<script>alert(1)</script>")).toEqual(["html"]);
    expect(kinds("# a\n\n- b\n\n```js\nc\n```")).toEqual(["heading", "list", "code"]);
  });

  it("steps over no level of headings", () => {
    const levels = (text: string): number[] => [...headingLevels(blocksOf(text) ?? []).values()];
    expect(levels("### a\n\n##### b\n\n# c\n\n## d\n\n# e")).toEqual([3, 4, 3, 4, 3]);
  });

  it("shows texts as they are that are too large, or nested too deeply", () => {
    expect(blocksOf("x".repeat(100_001))).toBeUndefined();
    expect(blocksOf(">".repeat(50_000))).toBeUndefined();
    const begun = performance.now();
    for (const text of ["*".repeat(50_000), "[".repeat(50_000), "`".repeat(50_000), "- ".repeat(20_000), "|a".repeat(20_000)]) blocksOf(text);
    expect(performance.now() - begun).toBeLessThan(20_000);
  });

  it("turns common entities into characters once", () => expect(unescaped("&amp;lt;b&gt;")).toBe("&lt;b>"));
});
