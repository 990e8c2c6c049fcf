/** The time of a run, task by task: bars of its attempts, and the tasks on its critical path. */
import type { RunView } from "@sdk/runView/run.js";
import type { TaskView } from "@sdk/runView/task.js";
import { duration } from "../../parts/format.js";

export interface Bar {
  /** Start and end as parts of the whole time, 0 to 1. */
  readonly from: number;
  readonly to: number;
  /** wait, busy, good, bad or over. */
  readonly kind: string;
  readonly title: string;
}

export interface Row {
  readonly task: TaskView;
  readonly bars: readonly Bar[];
  readonly critical: boolean;
  readonly text: string;
}

export interface Waterfall {
  readonly rows: readonly Row[];
  /** Milliseconds of the run. */
  readonly total: number;
}

const KINDS: Readonly<Record<string, string>> = { working: "busy", completed: "good", canceled: "over", "given back": "over", asked: "waiting" };

/** Returns the rows of a run until a time, in the order in which the tasks were created; `path` has the tasks on its critical path. */
export function waterfallOf(view: RunView, now: number, path: readonly string[] = []): Waterfall {
  const until = Math.max(view.ended || now, view.started + 1);
  const total = until - view.started;
  const part = (at: number): number => Math.min(1, Math.max(0, (at - view.started) / total));
  const wait = (from: number, to: number): Bar => ({ from: part(from), to: part(to), kind: "wait", title: `waits for ${duration(to - from)}` });
  const rows = [...view.tasks.values()].map((task) => {
    const bars: Bar[] = [];
    let since = task.created;
    for (const attempt of task.attempts) {
      const end = attempt.ended || until;
      if (attempt.started > since) bars.push(wait(since, attempt.started));
      const how = attempt.failure?.message ? `${attempt.outcome}: ${attempt.failure.message.slice(0, 200)}` : attempt.outcome;
      bars.push({ from: part(attempt.started), to: part(end), kind: KINDS[attempt.outcome] ?? "bad", title: `attempt ${attempt.number}: ${how}, ${duration(end - attempt.started)}` });
      since = end;
    }
    if (!task.final && task.state !== "WORKING" && until > since) bars.push(wait(since, until));
    return { task, bars, critical: path.includes(task.taskId), text: duration((task.ended || until) - task.created) };
  });
  return { rows, total };
}
