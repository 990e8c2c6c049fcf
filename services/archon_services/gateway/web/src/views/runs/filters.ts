/** The filters of the list of runs, which live in the address of the page. */
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";
import type { ListRunsRequest } from "@api/archon/api/orchestrator/v1/orchestrator_service_pb.js";

/** Characters of a text to search for. */
export const MAX_TEXT = 200;

/** The choices of the state, by their names in the address. */
export const STATES: Readonly<Record<string, readonly TaskState[]>> = {
  open: [TaskState.SUBMITTED, TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED],
  waiting: [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED],
  completed: [TaskState.COMPLETED],
  failed: [TaskState.FAILED, TaskState.REJECTED],
  canceled: [TaskState.CANCELED],
};

/** The choices of the time since the submit, in milliseconds. */
export const AGES: Readonly<Record<string, number>> = { "1h": 3_600_000, "1d": 86_400_000, "7d": 604_800_000, "30d": 2_592_000_000 };

export type Filter = Partial<Pick<ListRunsRequest, "text" | "sessionId" | "states" | "createdSince" | "createdBefore">>;

/** Returns the filter of an address at a time, in milliseconds since 1970. What it does not know it leaves out. */
export function filterOf(query: URLSearchParams, now: number): Filter {
  const filter: Filter = {};
  const text = (query.get("text") ?? "").trim().slice(0, MAX_TEXT);
  const session = query.get("session") ?? "";
  const states = chosen(STATES, query.get("state"));
  const age = chosen(AGES, query.get("since"));
  const before = Date.parse(query.get("until") ?? "");
  if (text !== "") filter.text = text;
  if (session !== "") filter.sessionId = session;
  if (states !== undefined) filter.states = [...states];
  if (age !== undefined) filter.createdSince = timestampFromMs(now - age);
  if (Number.isFinite(before)) filter.createdBefore = timestampFromMs(before);
  return filter;
}

/** Whether anything is filtered. */
export function isFiltered(query: URLSearchParams): boolean {
  return ["text", "session", "state", "since", "until"].some((name) => (query.get(name) ?? "") !== "");
}

function chosen<T>(choices: Readonly<Record<string, T>>, name: string | null): T | undefined {
  return name !== null && Object.hasOwn(choices, name) ? choices[name] : undefined;
}
