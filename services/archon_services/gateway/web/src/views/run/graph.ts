/** The graph of a run: its tasks, or in a large run its roles. */
import type { RunView } from "@sdk/runView/run.js";
import type { TaskView } from "@sdk/runView/task.js";
import type { TaskState } from "@sdk/types/usage.js";
import { duration } from "../../parts/format.js";
import type { GraphEdge, GraphNode } from "../../parts/graph/layout.js";
import { kindOfState, nameOfState } from "../../parts/states.js";

/** Tasks up to which each is a node: the layout of more takes longer than a glance. */
export const MAX_NODES = 150;

export interface RunGraph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  /** Whether the nodes are roles. */
  readonly byRole: boolean;
}

/** Returns the graph of a run as it is now. Delegations are dashed. */
export function graphOf(view: RunView): RunGraph {
  return view.tasks.size > MAX_NODES ? rolesOf(view) : tasksOf(view);
}

function tasksOf(view: RunView): RunGraph {
  const nodes = [...view.tasks.values()].map((task) => ({ id: task.taskId, label: task.label, note: noteOf(task), kind: kindOfState(task.state) }));
  const edges: GraphEdge[] = [];
  for (const task of view.tasks.values()) {
    for (const other of view.predecessors(task)) edges.push({ from: other.taskId, to: task.taskId });
    if (task.parentTaskId !== "") edges.push({ from: task.parentTaskId, to: task.taskId, dashed: true });
  }
  return { nodes, edges, byRole: false };
}

function noteOf(task: TaskView): string {
  const running = [...task.toolCalls.values()].at(-1);
  if (running !== undefined && !task.final) return `calls ${running}`;
  const last = task.attempt;
  const attempts = task.attempts.length > 1 ? `, attempt ${task.attempts.length}` : "";
  return nameOfState(task.state) + (task.ended > 0 && last ? `, ${duration(task.ended - last.started)}` : "") + attempts;
}

function rolesOf(view: RunView): RunGraph {
  const groups = new Map<string, TaskView[]>();
  const edges = new Map<string, GraphEdge>();
  const add = (from: string | undefined, to: string, dashed: boolean): void => {
    if (from !== undefined && from !== to) edges.set(`${from}\n${to}`, { from, to, dashed });
  };
  for (const task of view.tasks.values()) {
    const group = groups.get(task.role);
    if (group) group.push(task);
    else groups.set(task.role, [task]);
    for (const id of task.predecessors) add(view.tasks.get(id)?.role, task.role, false);
    if (task.parentTaskId !== "") add(view.tasks.get(task.parentTaskId)?.role, task.role, true);
  }
  for (const [from, to] of view.edges) if (groups.has(from) && groups.has(to)) add(from, to, false);
  const nodes = [...groups].map(([role, tasks]) => ({ id: role, label: role, note: countsOf(tasks), kind: kindOf(tasks) }));
  return { nodes, edges: [...edges.values()], byRole: true };
}

function countsOf(tasks: readonly TaskView[]): string {
  const counts = new Map<TaskState, number>();
  for (const { state } of tasks) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${count.toLocaleString("en")} ${nameOfState(state)}`).join(", ");
}

const URGENT: readonly TaskState[] = ["FAILED", "INPUT_REQUIRED", "WORKING", "SUBMITTED", "COMPLETED"];

function kindOf(tasks: readonly TaskView[]): string {
  const states = new Set(tasks.map((task) => task.state));
  return kindOfState(URGENT.find((state) => states.has(state)) ?? "CANCELED");
}
