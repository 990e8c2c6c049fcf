import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { RunEventSchema } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { LiveAnswer, MAX_PIECE } from "./answer.js";

type Event = MessageInitShape<typeof RunEventSchema>["event"];

function folded(...events: readonly [task: string, attempt: number, event: NonNullable<Event>][]): LiveAnswer {
  const answer = new LiveAnswer();
  for (const [taskId, attempt, event] of events) answer.apply(create(RunEventSchema, { task: { taskId, attempt }, event }));
  return answer;
}

const text = (value: string): NonNullable<Event> => ({ case: "textDelta", value: { role: "r", text: value } });
const begun: NonNullable<Event> = { case: "dispatched", value: { role: "r" } };
const called = (id: string, more = {}): NonNullable<Event> => ({ case: "toolEvent", value: { role: "r", callId: id, toolName: "t", ...more } });

describe("an answer that is generated", () => {
  it("is the text after the last tool call", () => {
    const answer = folded(["1", 1, begun], ["1", 1, text("I look. ")], ["1", 1, called("a", { argumentsJson: "{}" })], ["1", 1, called("a", { resultJson: "1" })], ["1", 1, text("It ")], ["1", 1, text("is 1.")]);
    expect(answer.draft).toBe("It is 1.");
    expect(answer.steps.map((piece) => (piece.kind === "tool" ? `${piece.name}: ${piece.state} ${piece.result}` : piece.text))).toEqual(["I look. ", "t: done 1"]);
  });

  it("begins anew with a later attempt", () => {
    expect(folded(["1", 1, begun], ["1", 1, text("half")], ["1", 2, begun], ["1", 2, text("whole")]).draft).toBe("whole");
  });

  it("is not the text of a task to which it was delegated", () => {
    const answer = folded(["1", 1, begun], ["2", 1, begun], ["2", 1, text("inner")]);
    expect(answer.draft).toBe("");
    expect(answer.steps).toHaveLength(1);
  });

  it("shows arguments while they are written, then those of the call", () => {
    const delta: NonNullable<Event> = { case: "toolArgumentsDelta", value: { role: "r", callId: "a", toolName: "t", text: '{"x' } };
    const answer = folded(["1", 1, delta], ["1", 1, delta]);
    expect(answer.pieces).toMatchObject([{ arguments: '{"x{"x', state: "being written" }]);
    answer.apply(create(RunEventSchema, { task: { taskId: "1" }, event: called("a", { argumentsJson: '{"x":1}' }) }));
    expect(answer.pieces).toMatchObject([{ arguments: '{"x":1}', state: "called" }]);
  });

  it("is bounded", () => {
    const answer = folded(["1", 1, begun], ...Array.from({ length: 5 }, () => ["1", 1, text("x".repeat(MAX_PIECE / 2))] as [string, number, NonNullable<Event>]));
    expect(answer.draft).toHaveLength(MAX_PIECE);
  });
});
