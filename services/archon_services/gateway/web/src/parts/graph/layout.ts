/** Places the nodes of a directed graph in layers, by dagre. */
import { Graph, layout as place } from "@dagrejs/dagre";

export interface GraphNode {
  readonly id: string;
  readonly label: string;
  /** A second, quiet line. */
  readonly note: string;
  /** Of app.css: busy, waiting, good, bad or over. */
  readonly kind: string;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  readonly dashed?: boolean;
}

export interface Placed {
  readonly width: number;
  readonly height: number;
  readonly nodes: readonly (GraphNode & { readonly x: number; readonly y: number })[];
  readonly edges: readonly (GraphEdge & { readonly path: string })[];
}

export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 48;

/** Returns the places of nodes and the paths of edges, in pixels; nodes have the same size. */
export function layout(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Placed {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 16, ranksep: 44, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const known = new Set(nodes.map((node) => node.id));
  for (const node of nodes) graph.setNode(node.id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  const drawn = edges.filter((edge) => known.has(edge.from) && known.has(edge.to) && edge.from !== edge.to);
  drawn.forEach((edge, index) => graph.setEdge(edge.from, edge.to, {}, String(index)));
  place(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: Math.max(1, size.width ?? 1),
    height: Math.max(1, size.height ?? 1),
    nodes: nodes.map((node) => {
      const { x, y } = graph.node(node.id) as { x: number; y: number };
      return { ...node, x, y };
    }),
    edges: drawn.map((edge, index) => {
      const { points = [] } = graph.edge(edge.from, edge.to, String(index)) as { points?: readonly { x: number; y: number }[] };
      return { ...edge, path: points.map(({ x, y }, at) => `${at === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") };
    }),
  };
}
