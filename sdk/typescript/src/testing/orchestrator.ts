/**
 * FakeOrchestrator: gives an agent tasks, as an orchestrator does, and answers its handler's requests.
 *
 *     await using agent = await FakeAgent.start("cook", ["Soup."]);
 *     using peer = await FakeOrchestrator.connect(agent.address);
 *     const task = peer.ref("task-1");
 *     peer.assign(task, "Make lunch.");
 *     (await peer.result(task)).text; // "Soup."
 */
import { create } from "@bufbuild/protobuf";
import { AssignTaskSchema, type TaskResult as ResultMessage } from "../api/archon/api/agent/v1/agent_pb.js";
import type { Delegate } from "../api/archon/api/agent/v1/session_pb.js";
import type { PeerMessage } from "../api/archon/api/agent/v1/message_pb.js";
import { TaskState as TaskStateEnum } from "../api/archon/api/common/v1/common_pb.js";
import { Decision as DecisionEnum } from "../api/archon/api/common/v1/question_pb.js";
import { questionFromProto, type Decision, type Question } from "../agent/question.js";
import { ArchonError } from "../errors.js";
import { fromFailure, toFailure } from "../status.js";
import { messageFromProto, messageToProto, type Message } from "../types/message.js";
import { contentToProto, partFromProto, textOf, type Content, type Part } from "../types/part.js";
import { stateName, usageFromProto, type TaskRef, type TaskState, type Usage } from "../types/usage.js";
import { durationOf } from "../wire.js";
import { FrameOrchestrator, type OpenOptions } from "./frameOrchestrator.js";

/** The end of an attempt at a task: the answer, a failure, or a question to a person. */
export interface AttemptResult {
  readonly state: TaskState;
  readonly text: string;
  readonly parts: readonly Part[];
  readonly usage: Usage;
  /** The failure, as the error that callers get. */
  readonly error: ArchonError | undefined;
  /** The question with which the attempt has ended. */
  readonly question: Question | undefined;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A part of a task that its handler delegates to a role, or to any role with a capability. */
export interface ReceivedDelegation {
  readonly delegationId: string;
  readonly role: string;
  readonly capability: string;
  readonly text: string;
  readonly parts: readonly Part[];
}

/** What a task has besides its input. */
export interface AssignOptions {
  /** Upstream answers. */
  readonly context?: readonly (readonly [role: string, text: string])[];
  readonly remainingMs?: number;
}

function resultOf(message: ResultMessage): AttemptResult {
  return {
    state: stateName(message.state),
    text: textOf(message.output),
    parts: message.output.map(partFromProto),
    usage: usageFromProto(message.usage),
    error: message.failure && fromFailure(message.failure),
    question: message.inputRequest && questionFromProto(message.inputRequest, Uint8Array.from(message.checkpoint)),
    metadata: { ...message.metadata },
  };
}

/** One session with an agent. It sends nothing by itself. Methods that wait throw an Error with the frames that came instead. */
export class FakeOrchestrator {
  #delivered = 0;

  /** @internal Use `connect`. */
  constructor(
    readonly frames: FrameOrchestrator,
    /** How many tasks the agent takes at a time. */
    readonly maxTasks: number,
  ) {}

  /** Opens a session with the agent at an address. */
  static async connect(
    address: string,
    options: OpenOptions & { orchestratorId?: string; timeoutMs?: number } = {},
  ): Promise<FakeOrchestrator> {
    const { orchestratorId = "orchestrator-1", timeoutMs = 5_000, ...open } = options;
    const frames = new FrameOrchestrator(address, { orchestratorId, timeoutMs });
    try {
      return new FakeOrchestrator(frames, (await frames.open(open)).maxTasks);
    } catch (error) {
      frames.breakOff();
      throw error;
    }
  }

  /** Breaks the stream off, as a broken connection does. Idempotent. */
  breakOff(): void {
    this.frames.breakOff();
  }

  [Symbol.dispose](): void {
    this.breakOff();
  }

  /** Waits for the agent to end the stream. Returns the error; undefined if it ended with OK. */
  ended(): Promise<ArchonError | undefined> {
    return this.frames.ended();
  }

  /** Returns a reference to an attempt. */
  ref(taskId: string, options: { runId?: string; attempt?: number } = {}): TaskRef {
    return this.frames.ref(taskId, options);
  }

  // To the agent

  /** Assigns a task. */
  assign(task: TaskRef, input: Content, { context = [], remainingMs }: AssignOptions = {}): void {
    const assigned = create(AssignTaskSchema, {
      input: contentToProto(input),
      context: context.map(([role, text]) => ({ ref: { role, runId: task.runId }, parts: contentToProto(text) })),
      ...(remainingMs !== undefined && { remaining: durationOf(remainingMs) }),
    });
    this.frames.assign(task, assigned);
  }

  /** Cancels an attempt. */
  cancel(task: TaskRef, reason = "enough"): void {
    this.frames.cancel(task, reason);
  }

  /** Answers a question of `Task.ask`. */
  answer(
    task: TaskRef,
    inputId: string,
    answer: Content,
    { decision = "", identity = "" }: { decision?: Decision; identity?: string } = {},
  ): void {
    const number = DecisionEnum[(decision || "UNSPECIFIED").toUpperCase() as keyof typeof DecisionEnum];
    const value = { inputId, decision: number, identity, parts: contentToProto(answer) };
    this.frames.send(this.frames.stamped(task, { case: "input", value }));
  }

  /** Ends a delegation with an answer, or with an error. */
  complete(task: TaskRef, delegationId: string, answer: Content | ArchonError): void {
    const result =
      answer instanceof ArchonError
        ? { state: TaskStateEnum.FAILED, failure: toFailure(answer) }
        : { state: TaskStateEnum.COMPLETED, output: contentToProto(answer) };
    this.frames.send(this.frames.stamped(task, { case: "delegateResult", value: { delegationId, result } }));
  }

  /** Delivers newer upstream answers. */
  update(task: TaskRef, context: readonly (readonly [role: string, text: string])[]): void {
    const items = context.map(([role, text]) => ({ ref: { role, runId: task.runId }, parts: contentToProto(text) }));
    this.frames.send(this.frames.stamped(task, { case: "updateMemory", value: { context: items } }));
  }

  /** Delivers a message of another agent. One without a number gets the next one. */
  deliver(task: TaskRef, message: Partial<Message>): void {
    this.#delivered = Math.max(this.#delivered + 1, message.seq ?? 0);
    const value = messageToProto({ ...message, seq: message.seq ?? this.#delivered });
    this.frames.send(this.frames.stamped(task, { case: "message", value }));
  }

  // From the agent

  /** Waits for the result of an attempt, and acknowledges it. */
  async result(task: TaskRef): Promise<AttemptResult> {
    return resultOf(await this.frames.result(task));
  }

  /** Waits for the next question of `Task.ask`. */
  async question(task: TaskRef): Promise<Question> {
    const { frame } = await this.frames.receive("ask", task);
    return questionFromProto(frame.value as Parameters<typeof questionFromProto>[0]);
  }

  /** Waits for the next delegation. */
  async delegation(task: TaskRef): Promise<ReceivedDelegation> {
    const asked = (await this.frames.receive("delegate", task)).frame.value as Delegate;
    const { delegationId, target, input } = asked;
    return {
      delegationId,
      role: target.case === "role" ? target.value : "",
      capability: target.case === "capability" ? target.value : "",
      text: textOf(input),
      parts: input.map(partFromProto),
    };
  }

  /** Waits for the next message to other agents, and accepts it, or refuses it with an error. */
  async sent(task: TaskRef, { refuse }: { refuse?: ArchonError } = {}): Promise<Message> {
    const message = (await this.frames.receive("sendMessage", task)).frame.value as PeerMessage;
    const { messageId } = message;
    if (refuse === undefined) this.#delivered += 1;
    const outcome = refuse === undefined ? { seq: BigInt(this.#delivered) } : { failure: toFailure(refuse) };
    this.frames.send(this.frames.stamped(task, { case: "messageResult", value: { messageId, ...outcome } }));
    return messageFromProto(message);
  }

  /** Returns the text that the handler has streamed so far. */
  written(task: TaskRef): string {
    return this.frames.frames
      .filter((frame) => frame.task?.taskId === task.taskId && frame.task.attempt === task.attempt)
      .map(({ frame }) => (frame.case === "progress" && frame.value.content.case === "text" ? frame.value.content.value : ""))
      .join("");
  }
}
