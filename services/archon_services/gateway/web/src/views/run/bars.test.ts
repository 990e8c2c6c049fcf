import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";
import { RunEventSchema, Strategy, type RunEvent as EventMessage } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { RunView } from "@sdk/runView/run.js";
import { RunEvent } from "@sdk/types/run.js";
import { waterfallOf } from "./bars.js";
import { graphOf, MAX_NODES } from "./graph.js";

type Content = Parameters<typeof create<typeof RunEventSchema>>[1] extends infer I | undefined ? I : never;

/** Folds events, each at milliseconds after the start. */
function folded(...events: readonly (readonly [ms: number, taskId: string, event: unknown])[]): RunView {
  const view = new RunView();
  events.forEach(([ms, taskId, event], index) => {
    const init = { seq: BigInt(index + 1), time: timestampFromMs(1_000 + ms), ...(taskId === "" ? {} : { task: { taskId, attempt: 1 } }), event } as Content;
    view.apply(new RunEvent(create(RunEventSchema, init) as EventMessage));
  });
  return view;
}

const result = { case: "result", value: { state: TaskState.COMPLETED } };
const created = (role: string, parentTaskId = "") => ({ case: "taskState", value: { role, state: TaskState.SUBMITTED, parentTaskId } });

/** A pipeline of a and b before c; a takes 1 s, b 5 s, c 2 s. */
function pipeline(): RunView {
  return folded(
    [0, "", { case: "submitted", value: { strategy: Strategy.PIPELINE, edges: [{ upstream: "a", downstream: "c" }, { upstream: "b", downstream: "c" }] } }],
    ...["a", "b", "c"].map((role) => [0, role, created(role)] as const),
    ...["a", "b"].map((role) => [0, role, { case: "dispatched", value: { role } }] as const),
    [1_000, "a", result],
    [5_000, "b", result],
    [6_000, "c", { case: "dispatched", value: { role: "c" } }],
    [8_000, "c", result],
    [8_000, "", { case: "runState", value: { state: TaskState.COMPLETED } }],
  );
}

test("tasks of the critical path are marked", () => {
  const { rows, total } = waterfallOf(pipeline(), 0, ["b", "c"]);
  expect(rows.map(({ task, critical }) => [task.role, critical])).toEqual([["a", false], ["b", true], ["c", true]]);
  expect(total).toBe(8_000);
});

test("a task waits until its first attempt, and works from then on", () => {
  const bars = waterfallOf(pipeline(), 0).rows[2]?.bars;
  expect(bars?.map(({ kind, from, to }) => [kind, from, to])).toEqual([["wait", 0, 0.75], ["good", 0.75, 1]]);
});

test("a run without tasks and a clock that goes backwards have a time", () => {
  const view = new RunView();
  view.started = 5_000;
  expect(waterfallOf(view, 1_000)).toEqual({ rows: [], total: 1 });
});

test("a small run is a graph of its tasks, a large one of its roles", () => {
  expect(graphOf(pipeline())).toMatchObject({ byRole: false, edges: [{ from: "a", to: "c" }, { from: "b", to: "c" }] });
  const large = folded(
    [0, "", { case: "submitted", value: { strategy: Strategy.AGENT } }],
    [0, "root", created("chief")],
    ...Array.from({ length: MAX_NODES }, (_, index) => [1, `t${index}`, created("worker", "root")] as const),
  );
  const { byRole, nodes, edges } = graphOf(large);
  expect(byRole).toBe(true);
  expect(nodes.map(({ label, note }) => [label, note])).toEqual([["chief", "1 submitted"], ["worker", `${MAX_NODES} submitted`]]);
  expect(edges).toEqual([{ from: "chief", to: "worker", dashed: true }]);
});
