import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { RunRecordSchema } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { callsOf, playgroundCommand } from "./calls.js";

const REQUEST = { messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "Hello" }], origins: [{ kind: "system_prompt" }, { kind: "shared_context", version: 1, role: "requirements" }], tools: [{}, {}] };
const record = (taskId: string, response: unknown) =>
  create(RunRecordSchema, { kind: "model", task: { taskId, runId: "run" }, role: "clerk", target: "gpt", requestJson: JSON.stringify(REQUEST), responseJson: JSON.stringify(response) });

describe("recorded calls", () => {
  it("are numbered by task, with the origins of their messages", () => {
    const calls = callsOf([record("1", { text: "a" }), record("2", { text: "b" }), record("1", { error: { message: "too long" } })]);
    expect(calls.map((call) => [call.number, call.of, call.answer, call.failed])).toEqual([[1, 2, "a", false], [1, 1, "b", false], [2, 2, "too long", true]]);
    expect(calls[0]?.messages.map((message) => message.origin)).toEqual(["system prompt", "shared context 1 requirements"]);
    expect(calls[0]?.tools).toBe(2);
  });

  it("without contents have no messages", () => {
    const redacted = create(RunRecordSchema, { kind: "model", requestJson: '{"bytes": 12}', responseJson: "" });
    expect(callsOf([redacted])[0]?.messages).toEqual([]);
  });
});

describe("the command", () => {
  it("quotes for a shell whatever a text has", () => {
    const call = callsOf([record("run.1", { text: "a" })])[0];
    if (!call) throw new Error("there is no call");
    expect(playgroundCommand(call, new Map([[0, "It's $(rm -rf ~); `x`"]]), "openai/gpt-5", 3)).toBe(
      "archon playground run run.1 1 --set '1=It'\\''s $(rm -rf ~); `x`' --model openai/gpt-5 --repeat 3",
    );
    expect(playgroundCommand(call, new Map(), "", 1)).toBe("archon playground run run.1 1");
  });
});
