/** The views of the page: the path of each, its name in the navigation, and the RPC that a reader needs for it. */
import type { Component } from "svelte";
import type { session } from "../shell/session.svelte.js";

type Loaded = { default: Component<Record<string, string>> };

export interface View {
  /** Segments of the path; those that begin with `:` are given to the view as properties. */
  readonly path: string;
  /** The name in the navigation; empty: the view is reached by links. */
  readonly name: string;
  readonly needs: Parameters<typeof session.may>;
  readonly load: () => Promise<Loaded>;
}

export const VIEWS: readonly View[] = [
  { path: "/runs", name: "Runs", needs: ["orchestrator", "ListRuns"], load: () => import("./runs/Runs.svelte") as Promise<Loaded> },
  { path: "/runs/:id", name: "", needs: ["orchestrator", "GetRun"], load: () => import("./run/Run.svelte") as unknown as Promise<Loaded> },
  { path: "/inbox", name: "Inbox", needs: ["orchestrator", "ListQuestions"], load: () => import("./inbox/Inbox.svelte") as Promise<Loaded> },
  { path: "/chat", name: "Chat", needs: ["orchestrator", "ListRuns"], load: () => import("./chat/Chat.svelte") as Promise<Loaded> },
  { path: "/chat/:role", name: "", needs: ["orchestrator", "SubmitRun"], load: () => import("./chat/Chat.svelte") as Promise<Loaded> },
  { path: "/chat/:role/:session", name: "", needs: ["orchestrator", "ListRuns"], load: () => import("./chat/Chat.svelte") as Promise<Loaded> },
  { path: "/fleet", name: "Fleet", needs: ["registry", "ListInstances"], load: () => import("./fleet/Fleet.svelte") as Promise<Loaded> },
  { path: "/tools", name: "Tools", needs: ["orchestrator", "ListRunRecords"], load: () => import("./tools/Tools.svelte") as Promise<Loaded> },
  { path: "/memory", name: "Memory", needs: ["memory graph", "GetGraph"], load: () => import("./memory/Memory.svelte") as Promise<Loaded> },
  { path: "/prompts", name: "Prompts", needs: ["orchestrator", "ListRunRecords"], load: () => import("./prompts/Prompts.svelte") as Promise<Loaded> },
  { path: "/learning", name: "Learning", needs: ["orchestrator", "ListLearnedVersions"], load: () => import("./learning/Learning.svelte") as Promise<Loaded> },
  { path: "/audit", name: "Audit", needs: ["audit", "ListEntries"], load: () => import("./audit/Audit.svelte") as Promise<Loaded> },
];

export interface Match {
  readonly view: View;
  readonly values: Record<string, string>;
}

/** Returns the view of a path, with the values of its segments. */
export function match(path: string): Match | undefined {
  const given = path.split("/").filter((segment) => segment !== "");
  for (const view of VIEWS) {
    const wanted = view.path.split("/").filter((segment) => segment !== "");
    if (wanted.length !== given.length) continue;
    const values: Record<string, string> = {};
    const fits = wanted.every((segment, index) => {
      const value = given[index] ?? "";
      if (!segment.startsWith(":")) return segment === value;
      values[segment.slice(1)] = decoded(value);
      return true;
    });
    if (fits) return { view, values };
  }
  return undefined;
}

/** Returns a segment of a path as it was before it was encoded: as it is, if it is not encoded correctly. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
