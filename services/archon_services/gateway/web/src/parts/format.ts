/** Texts of values, as all views show them. */
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { Part, Usage } from "@api/archon/api/common/v1/common_pb.js";
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";

/** Milliseconds since 1970, or undefined. */
export function time(value: Timestamp | undefined): number | undefined {
  return value === undefined ? undefined : timestampMs(value);
}

/** The date and time of this reader, with the zone: an hour of autumn comes twice. */
export function localTime(ms: number): string {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

/** `850 ms`, `3.2 s`, `4 min 10 s`, `3 h 5 min`, `2 d 4 h`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(seconds / 3_600);
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** `$0.0123`; an empty text if nothing was paid. */
export function cost(usage: Usage | undefined): string {
  const micro = Number(usage?.costMicroUsd ?? 0n);
  return micro === 0 ? "" : `$${(micro / 1e6).toFixed(micro < 10_000 ? 4 : 2)}`;
}

/** `1,234`; tokens that were read and written, an empty text for none. */
export function tokens(usage: Usage | undefined): string {
  const count = Number((usage?.inputTokens ?? 0n) + (usage?.outputTokens ?? 0n));
  return count === 0 ? "" : count.toLocaleString("en");
}

/** The text of parts; files and values by their names. */
export function textOf(parts: readonly Part[]): string {
  return parts
    .map(({ content }) => (content.case === "text" ? content.value : content.case === undefined ? "" : `[${content.case}]`))
    .join("\n");
}

export type StateKind = "busy" | "waiting" | "good" | "bad" | "over";

const STATES: Readonly<Record<TaskState, readonly [string, StateKind]>> = {
  [TaskState.UNSPECIFIED]: ["unknown", "over"],
  [TaskState.SUBMITTED]: ["submitted", "waiting"],
  [TaskState.WORKING]: ["working", "busy"],
  [TaskState.COMPLETED]: ["completed", "good"],
  [TaskState.FAILED]: ["failed", "bad"],
  [TaskState.CANCELED]: ["canceled", "over"],
  [TaskState.INPUT_REQUIRED]: ["input required", "waiting"],
  [TaskState.REJECTED]: ["rejected", "bad"],
  [TaskState.AUTH_REQUIRED]: ["auth required", "waiting"],
};

/** The name of a state and its colour. */
export function stateText(state: TaskState): readonly [string, StateKind] {
  return STATES[state] ?? STATES[TaskState.UNSPECIFIED];
}

export function isFinal(state: TaskState): boolean {
  return [TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED].includes(state);
}
