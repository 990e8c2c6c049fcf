/** Events of a run in a line, and which of them a reader looks for. */
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";
import type { RunEvent } from "@api/archon/api/orchestrator/v1/run_pb.js";
import type { RunView } from "@sdk/runView/run.js";
import { stateText, textOf } from "../../parts/format.js";

const MAX_ABOUT = 300;

/** Returns the kinds of events, by name. */
export function kindsOf(events: readonly RunEvent[]): readonly string[] {
  return [...new Set(events.map((event) => event.event.case ?? "unknown"))].sort();
}

/** The task of an event, and what it says. */
export function aboutOf(event: RunEvent, run: RunView): string {
  const task = run.tasks.get(event.task?.taskId ?? "");
  return [task?.label ?? "", detailOf(event)].filter((text) => text !== "").join(": ").slice(0, MAX_ABOUT);
}

function detailOf({ event }: RunEvent): string {
  switch (event.case) {
    case "submitted":
      return textOf(event.value.goal);
    case "runState":
    case "taskState":
      return [stateText(event.value.state)[0], event.value.failure?.message ?? ""].filter((text) => text !== "").join(", ");
    case "result":
      return [event.value.state === TaskState.COMPLETED ? "" : stateText(event.value.state)[0], event.value.failure?.message ?? textOf(event.value.output)].filter((text) => text !== "").join(", ");
    case "dispatched":
      return `to ${event.value.instanceId}`;
    case "delegated":
      return `to ${event.value.role}${event.value.failure ? `, refused: ${event.value.failure.message}` : ""}`;
    case "retry":
    case "lost":
    case "rejected":
      return event.value.failure?.message ?? "";
    case "inputRequested":
    case "approvalRequested":
      return textOf(event.value.prompt);
    case "inputGiven":
      return `${event.value.identity} ${textOf(event.value.parts)}`.trim();
    case "recorded":
      return `${event.value.count} calls`;
    case "messageSent":
      return textOf(event.value.message?.content ?? []);
    case "cancelRequested":
      return event.value.reason;
    case "planned":
      return `${event.value.plan?.steps.length ?? 0} steps${event.value.reason ? `, ${event.value.reason}` : ""}`;
    default:
      return "";
  }
}

/** Whether a reader looks for an event. */
export function matches(event: RunEvent, kind: string, text: string, run: RunView): boolean {
  if (kind !== "" && event.event.case !== kind) return false;
  if (text === "") return true;
  const wanted = text.toLowerCase();
  return [event.event.case ?? "", event.task?.taskId ?? "", aboutOf(event, run)].some((each) => each.toLowerCase().includes(wanted));
}
