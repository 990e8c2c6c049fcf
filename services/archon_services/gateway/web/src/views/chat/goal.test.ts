import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { PartSchema } from "@api/archon/api/common/v1/common_pb.js";
import { givenParts, goalOf, newSession, roleOf, textsOf } from "./goal.js";

const sent = (...given: Parameters<typeof goalOf>) => goalOf(...given).map((part) => create(PartSchema, part));

describe("a message", () => {
  it("has what was said before as a part of its own, which is not shown again", () => {
    const parts = sent("And now?", [], [{ role: "user", text: "Hello" }, { role: "clerk", text: "Hi" }]);
    expect(textsOf(parts)).toBe("The conversation so far:\nuser: Hello\nclerk: Hi\n\nNow:\n\nAnd now?");
    expect(textsOf(givenParts(parts))).toBe("And now?");
  });

  it("of the command line is shown without what was said before", () => {
    const part = create(PartSchema, { content: { case: "text", value: "The conversation so far:\nuser: a\n\nNow:\nb" } });
    expect(textsOf(givenParts([part]))).toBe("b");
  });

  it("has its files", () => {
    const file = { name: "a.png", type: "image/png", bytes: new Uint8Array([1]) };
    expect(sent("", [file], [])).toMatchObject([{ filename: "a.png", mediaType: "image/png", content: { case: "raw" } }]);
  });

  it("leaves out the oldest of too long a conversation", () => {
    const long = Array.from({ length: 10 }, (_, index) => ({ role: "user", text: `${index}${"x".repeat(30_000)}` }));
    const text = textsOf(sent("y", [], long));
    expect(text.length).toBeLessThan(110_000);
    expect(text).toContain("user: 9");
    expect(text).not.toContain("user: 0");
  });
});

describe("a session", () => {
  it("names its role", () => {
    expect(roleOf(newSession("log-reader"))).toBe("log-reader");
    expect(roleOf("chat-0123456789abcdef0123456789abcdef")).toBeUndefined();
  });
});
