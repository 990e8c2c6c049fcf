import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";
import { PlanSchema } from "@api/archon/api/common/v1/plan_pb.js";
import { draftsOf, faultsOf, newDraft, planJson, planText, without } from "./planEdit.js";

const PLAN = create(PlanSchema, {
  goal: "g",
  steps: [
    { stepId: "a", role: "x", description: "first", state: TaskState.COMPLETED, quorum: 2, decision: "vote", outputSchemaJson: '{"type":"object"}' },
    { stepId: "b", role: "y", description: "second", dependencies: ["a"], state: TaskState.SUBMITTED },
    { stepId: "c", role: "y", description: "third", dependencies: ["b"] },
  ],
});

test("a step that has begun is fixed, and keeps all its fields", () => {
  const drafts = draftsOf(PLAN);
  expect(drafts.map((draft) => draft.fixed)).toEqual([true, false, false]);
  const { goal, subtasks } = JSON.parse(planJson("g", drafts)) as { goal: string; subtasks: Record<string, unknown>[] };
  expect(goal).toBe("g");
  expect(subtasks[0]).toMatchObject({ id: "a", quorum: 2, decision: "vote", output_schema: { type: "object" }, dependencies: [] });
});

test("what depended on a removed step depends on its dependencies", () => {
  const drafts = draftsOf(PLAN);
  const [, second] = drafts;
  if (second === undefined) throw new Error("the plan has three steps");
  expect(without(drafts, second).map(({ id, dependencies }) => [id, dependencies])).toEqual([["a", []], ["c", [0]]]);
});

test("steps that wait for each other, have one name or no description are faults", () => {
  const drafts = draftsOf(PLAN);
  expect(faultsOf(drafts)).toEqual([]);
  expect(faultsOf(drafts.map((draft) => (draft.id === "b" ? { ...draft, dependencies: [2] } : draft)))).toEqual(["These steps wait for each other: b, c."]);
  expect(faultsOf([...drafts, { ...newDraft(drafts, []), id: "a" }])).toEqual(["Two steps are named a.", "A step has no description."]);
  expect(faultsOf([])).toHaveLength(1);
});

test("a new step has a name and a key of its own", () => {
  const drafts = draftsOf(PLAN);
  const added = newDraft([...drafts, { ...newDraft(drafts, []), key: 7 }], [2]);
  expect([added.id, added.key, added.dependencies]).toEqual(["step-5", 8, [2]]);
  expect(planText([...drafts, { ...added, description: "d" }])).toMatch(/step-5 \(any role\) after c\n {4}d$/);
});

test("a step that is renamed keeps what depends on it, also if it has the name of another for a moment", () => {
  const drafts = draftsOf(PLAN);
  const named = (id: string) => drafts.map((draft) => (draft.key === 1 ? { ...draft, id } : draft));
  expect(faultsOf(named("a"))).toEqual(["Two steps are named a."]);
  const { subtasks } = JSON.parse(planJson("g", named("ab"))) as { subtasks: { id: string; dependencies: string[] }[] };
  expect(subtasks.map(({ id, dependencies }) => [id, dependencies])).toEqual([["a", []], ["ab", ["a"]], ["c", ["ab"]]]);
});
