/** The chain of tasks that decided how long a run took. */
import type { RunView } from "@sdk/runView/run.js";
import type { TaskView } from "@sdk/runView/task.js";

/** Returns the ids of the tasks of the chain: from the task that ended last back over the one that it waited for longest. */
export function criticalPath(view: RunView, now: number): ReadonlySet<string> {
  const endOf = (task: TaskView): number => task.ended || now;
  const lastOf = (tasks: readonly TaskView[]): TaskView | undefined =>
    tasks.reduce<TaskView | undefined>((last, task) => (last === undefined || endOf(task) > endOf(last) ? task : last), undefined);
  const path = new Set<string>();
  const tasks = [...view.tasks.values()];
  const parents = new Map(tasks.flatMap((task) => [...task.children].map((child) => [child, task] as const)));
  let current = lastOf(tasks.filter((task) => !parents.has(task.taskId)));
  while (current !== undefined && !path.has(current.taskId)) {
    path.add(current.taskId);
    const task: TaskView = current;
    const child = lastOf([...task.children].flatMap((id) => view.tasks.get(id) ?? []));
    if (child !== undefined) path.add(child.taskId);
    current = lastOf(view.predecessors(task).filter((other) => other.created <= endOf(task)));
  }
  return path;
}
