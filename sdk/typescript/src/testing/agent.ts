/**
 * FakeAgent: a real AgentServer that plays a script.
 *
 *     await using agent = await FakeAgent.start("translator", ["Bonjour", new InvalidArgument("no text")]);
 */
import { AgentServer, type AgentOptions } from "../agent/server.js";
import type { Task } from "../agent/task.js";
import { FailedPrecondition } from "../errors.js";

/** The reply to a task: what a handler returns, an error to throw, or a function of the task that returns one. */
export type Reply = unknown | Error | ((task: Task) => unknown);

/**
 * Answers the first task with the first reply, and so on; a task beyond them fails with SCRIPT_EXHAUSTED. It listens on a free
 * port of this machine and reads nothing of the environment but credentials. `close` throws if replies are unused.
 */
export class FakeAgent {
  /** The tasks that it received, in order. */
  readonly tasks: Task[] = [];
  readonly server: AgentServer;
  readonly #replies: Reply[];

  private constructor(role: string, replies: readonly Reply[], options: AgentOptions) {
    this.#replies = [...replies];
    const settings = {
      host: "127.0.0.1",
      port: 0,
      registry: "",
      attach: "",
      advertise: "",
      memory: "",
      readyFile: "",
      maxTasks: 0,
      dependsOn: undefined,
      ...options.settings,
    };
    this.server = new AgentServer(role, { description: "a scripted agent", ...options, settings }, (task) => this.#play(task));
  }

  /** Starts an agent. */
  static async start(role = "fake", replies: readonly Reply[] = [], options: AgentOptions = {}): Promise<FakeAgent> {
    const agent = new FakeAgent(role, replies, options);
    await agent.server.start();
    return agent;
  }

  /** host:port. */
  get address(): string {
    return this.server.address;
  }

  get instanceId(): string {
    return this.server.instanceId;
  }

  /** Adds replies to the script. */
  addReplies(...replies: Reply[]): this {
    this.#replies.push(...replies);
    return this;
  }

  /** Stops the agent. Throws an Error if replies are left. */
  async close(): Promise<void> {
    await this.server.stop({ graceMs: 0 });
    if (this.#replies.length > 0) {
      throw new Error(`${this.#replies.length} replies of ${this.server.role} were never used`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #play(task: Task): unknown {
    this.tasks.push(task);
    if (this.#replies.length === 0) {
      const which = `task ${task.taskId} (number ${this.tasks.length})`;
      throw new FailedPrecondition(`the script of ${this.server.role} has no reply left for ${which}`, {
        reason: "SCRIPT_EXHAUSTED",
        metadata: { role: this.server.role, task_id: task.taskId },
      });
    }
    const reply = this.#replies.shift();
    if (reply instanceof Error) throw reply;
    return typeof reply === "function" ? (reply as (task: Task) => unknown)(task) : reply;
  }
}
