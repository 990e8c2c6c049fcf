/** Places the tasks of a run as a graph from left to right. */
import { Graph, layout } from "@dagrejs/dagre";
import type { RunView } from "@sdk/runView/run.js";

export const WIDTH = 176;
export const HEIGHT = 46;

/** Above this number of tasks a layout takes longer than a glance: the waterfall shows them all. */
export const MOST_TASKS = 250;

export interface Node {
  readonly taskId: string;
  readonly x: number;
  readonly y: number;
}

export interface Edge {
  readonly from: string;
  readonly to: string;
  /** Whether the one task has delegated the other one. */
  readonly delegated: boolean;
  /** Points of the line, as SVG wants them. */
  readonly path: string;
}

export interface Placed {
  readonly nodes: readonly Node[];
  readonly edges: readonly Edge[];
  readonly width: number;
  readonly height: number;
}

/** Returns a text that changes when the graph does: tasks and edges, not states. */
export function shapeOf(view: RunView): string {
  return [...view.tasks.values()].map((task) => `${task.taskId}<${view.predecessors(task).map((other) => other.taskId).join(",")}<${task.parentTaskId}`).join(";");
}

/** Returns the places of tasks and lines; undefined if there are too many. */
export function place(view: RunView): Placed | undefined {
  if (view.tasks.size === 0 || view.tasks.size > MOST_TASKS) return undefined;
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 16, ranksep: 44, marginx: 8, marginy: 8 });
  for (const taskId of view.tasks.keys()) graph.setNode(taskId, { width: WIDTH, height: HEIGHT });
  for (const task of view.tasks.values()) {
    for (const other of view.predecessors(task)) graph.setEdge(other.taskId, task.taskId, { delegated: false });
    if (view.tasks.has(task.parentTaskId)) graph.setEdge(task.parentTaskId, task.taskId, { delegated: true });
  }
  layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return {
    width,
    height,
    nodes: graph.nodes().map((taskId) => {
      const { x, y } = graph.node(taskId) as { x: number; y: number };
      return { taskId, x: x - WIDTH / 2, y: y - HEIGHT / 2 };
    }),
    edges: graph.edges().map(({ v, w }) => {
      const { points, delegated } = graph.edge(v, w) as { points: { x: number; y: number }[]; delegated: boolean };
      const path = points.map(({ x, y }, index) => `${index === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      return { from: v, to: w, delegated, path };
    }),
  };
}
