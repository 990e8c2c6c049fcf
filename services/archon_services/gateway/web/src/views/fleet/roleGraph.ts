/** Places roles and the edges between them, from left to right. */
import { Graph as Layout, layout } from "@dagrejs/dagre";
import type { Graph } from "@api/archon/api/registry/v1/registry_pb.js";

export const WIDTH = 150;
export const HEIGHT = 40;

/** Roles above which the table alone shows them. */
export const MOST_ROLES = 250;

export interface PlacedGraph {
  readonly width: number;
  readonly height: number;
  readonly nodes: readonly { readonly role: string; readonly x: number; readonly y: number }[];
  readonly edges: readonly { readonly id: string; readonly pinned: boolean; readonly declared: boolean; readonly path: string; readonly text: string }[];
}

/** Returns the places; undefined if no role stands on an edge, or if there are too many. */
export function placeRoles(graph: Graph): PlacedGraph | undefined {
  const joined = new Set(graph.edges.flatMap((edge) => [edge.upstream, edge.downstream]));
  if (joined.size === 0 || joined.size > MOST_ROLES) return undefined;
  const places = new Layout();
  places.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 60, marginx: 8, marginy: 8 });
  for (const role of joined) places.setNode(role, { width: WIDTH, height: HEIGHT });
  for (const edge of graph.edges) places.setEdge(edge.upstream, edge.downstream, {});
  layout(places);
  const { width = 0, height = 0 } = places.graph() as { width?: number; height?: number };
  return {
    width,
    height,
    nodes: places.nodes().map((role) => {
      const { x, y } = places.node(role) as { x: number; y: number };
      return { role, x: x - WIDTH / 2, y: y - HEIGHT / 2 };
    }),
    edges: graph.edges.map((edge) => {
      const { points } = places.edge(edge.upstream, edge.downstream) as { points: { x: number; y: number }[] };
      const path = points.map(({ x, y }, index) => `${index === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      const origin = [edge.pinned ? "pinned" : "", edge.declaredBy.length > 0 ? `declared by ${edge.declaredBy.length}` : ""].filter(Boolean).join(", ");
      return { id: `${edge.upstream}>${edge.downstream}`, pinned: edge.pinned, declared: edge.declaredBy.length > 0, path, text: `${edge.upstream} to ${edge.downstream}: ${origin}` };
    }),
  };
}
