/** Colours of states by their names in the fold of the SDK. */
import type { TaskState } from "@sdk/types/usage.js";
import type { StateKind } from "./format.js";

const KINDS: Readonly<Record<string, StateKind>> = {
  SUBMITTED: "waiting",
  WORKING: "busy",
  COMPLETED: "good",
  FAILED: "bad",
  CANCELED: "over",
  INPUT_REQUIRED: "waiting",
  REJECTED: "bad",
  AUTH_REQUIRED: "waiting",
};

export function kindOfState(state: TaskState): StateKind {
  return KINDS[state] ?? "over";
}

export function nameOfState(state: TaskState): string {
  return state.toLowerCase().replace("_", " ");
}
