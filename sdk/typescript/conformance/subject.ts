/** The subject of the conformance scenarios: an agent, a client or an echo over this SDK (sdk/conformance/README.md). */
import { createInterface } from "node:readline";
import { AgentServer, ArchonError, Client, MemoryGraphClient, RegistryClient, withTrace, type Outcome, type Strategy, type Task } from "../src/index.js";
import { echo } from "./echo.js";
import { Ending, execute, outcome, shown } from "./steps.js";
import { sharedTools, useTool, type ToolUse } from "./tools.js";

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Executes the steps that are the text of a task; a text that is no list of them is answered as it is. */
async function handle(task: Task): Promise<Outcome> {
  let steps: unknown;
  try {
    steps = JSON.parse(task.text);
  } catch {
    return task.text;
  }
  if (!Array.isArray(steps)) return task.text;
  const values: unknown[] = [];
  for (const step of steps) {
    const [[name, value] = ["", undefined]] = Object.entries(step as Record<string, never>);
    const ended = outcome(name, value as never);
    if (ended !== undefined) return ended;
    try {
      const given = await execute(task, name, value as never);
      if (given !== undefined) values.push(given);
    } catch (error) {
      if (error instanceof Ending) throw error.what;
      if (!(error instanceof ArchonError) || task.signal.aborted) throw error;
      values.push({ error: shown(error) });
    }
  }
  return JSON.stringify(values);
}

async function serve(): Promise<void> {
  const over = new AbortController();
  process.stdin.on("end", () => over.abort()).resume();
  const agent = new AgentServer("subject", { sharedTools: sharedTools() }, handle);
  const onReady = (address: string): void => say({ ready: { address, instance_id: agent.instanceId } });
  await agent.run({ signal: over.signal, onReady });
  process.stdin.destroy();
}

type Call = Record<string, never> & { id: never; call: string };

async function answer(client: Client, call: Call, signal: AbortSignal): Promise<unknown> {
  const timeoutMs = call["deadline"] === undefined ? undefined : call["deadline"] * 1000;
  const limits = { signal, timeoutMs };
  const runId: string = call["run_id"] ?? "";
  const goal: string = call["goal"] ?? "";
  const waits = { signal, timeoutMs: timeoutMs ?? (call["timeout"] ?? 60) * 1000 };
  switch (call.call) {
    case "submit": {
      const { roles = [], strategy = "", request_id: requestId = "", timeout = 60 } = call;
      const options = { roles, strategy: strategy as Strategy, requestId, runTimeoutMs: timeout * 1000, ...limits };
      return { run_id: (await client.submit(goal, options)).runId };
    }
    case "wait": {
      const run = await client.wait(runId, waits);
      return { run_id: runId, state: run.state, output: run.text };
    }
    case "run":
      return client.run(goal, { roles: call["roles"] ?? [], ...waits });
    case "watch": {
      let last = 0;
      for await (const { seq, kind } of client.watch(runId, { afterSeq: call["after_seq"] ?? 0, signal: limited(limits) })) {
        last = Math.max(last, seq);
        say({ id: call.id, event: { seq, kind } });
      }
      return { last_seq: last };
    }
    case "converse": {
      await using stream = client.converse({ signal: limited(limits) });
      const goals: string[] = call["goals"] ?? [];
      const runs = await Promise.all(goals.map((each) => stream.submit(each)));
      stream.done();
      const outputs = new Map<string, string>();
      for await (const { runId: id, proto } of stream) {
        if (proto.event.case !== "result") continue;
        outputs.set(id, proto.event.value.output.map(({ content }) => String(content.value)).join("\n\n"));
      }
      return runs.map((run) => outputs.get(run.runId) ?? "");
    }
    case "get":
    case "pause":
    case "resume":
      return { run_id: runId, state: (await client[call.call](runId, limits)).state };
    case "cancel":
      return { run_id: runId, state: (await client.cancel(runId, "", limits)).state };
    case "respond":
      return { run_id: (await client.respond(runId, call["input_id"] ?? "", call["text"] ?? "", limits)).runId };
    case "fork":
      return { run_id: (await client.fork(runId, { afterSeq: call["after_seq"] ?? 0, ...limits })).runId };
    case "plan":
      return { tasks: (await client.plan(goal, limits)).tasks.map(({ role }) => role) };
    case "view": {
      const { RunView } = await import("../src/runView/index.js");
      const view = new RunView();
      for await (const event of client.watch(runId, { signal: limited(limits) })) view.apply(event);
      const tasks = [...view.tasks.values()].map(({ taskId, role, state, attempts }) => [taskId, { role, state, attempts: attempts.length }]);
      return { state: view.state, tasks: Object.fromEntries(tasks) as object, output: view.output };
    }
    case "instances": {
      await using registry = new RegistryClient(process.env["ARCHON_REGISTRY"] ?? "");
      return (await registry.listInstances(call["role"] ?? "", limits)).map(({ instanceId }) => instanceId);
    }
    case "pull": {
      using memory = new MemoryGraphClient(process.env["ARCHON_MEMORY"] ?? "", runId);
      return (await memory.pull(call["role"] ?? "", limits)).map(({ role, text }) => [role, text]);
    }
    case "use_tool":
      return useTool(call as unknown as ToolUse, signal);
    default:
      client.close();
      return {};
  }
}

/** Returns a signal that is aborted after the time of a call, too. */
function limited({ signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number | undefined }): AbortSignal {
  return timeoutMs === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
}

async function call(): Promise<void> {
  const client = new Client(process.env["ARCHON_TARGET"] ?? "");
  const running = new Map<unknown, AbortController>();
  say({ ready: {} });
  for await (const line of createInterface({ input: process.stdin })) {
    const given = JSON.parse(line) as Call & { stop?: unknown };
    if (given.stop !== undefined) {
      running.get(given.stop)?.abort();
      continue;
    }
    const controller = new AbortController();
    running.set(given.id, controller);
    void withTrace(given["trace"] ?? "", () => answer(client, given, controller.signal))
      .then(
        (result) => say({ id: given.id, result }),
        (error: unknown) => say({ id: given.id, error: error instanceof ArchonError ? shown(error) : { message: String(error) } }),
      )
      .finally(() => running.delete(given.id));
  }
  process.exit(0);
}

process.on("SIGTERM", () => process.argv[2] === "client" && process.exit(0));
const MODES: Record<string, () => Promise<void>> = { agent: serve, client: call, echo };
await (MODES[process.argv[2] ?? ""] ?? serve)();
