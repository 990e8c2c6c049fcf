/** Task: one attempt at a task, as its handler sees it. */
import { create, toBinary } from "@bufbuild/protobuf";
import {
  ProgressSchema,
  ToolEventSchema,
  type AssignTask,
  type Progress,
} from "../api/archon/api/agent/v1/agent_pb.js";
import { DelegateSchema, PublishSchema } from "../api/archon/api/agent/v1/session_pb.js";
import { TaskState, TraceContextSchema, type ContextItem as ContextProto } from "../api/archon/api/common/v1/common_pb.js";
import { currentTrace, now } from "../context.js";
import { ArchonError, FailedPrecondition, InvalidArgument } from "../errors.js";
import { WorkingMemoryClient } from "../memory/working.js";
import { SecretQuestion } from "../secretAnswers.js";
import { fromFailure } from "../status.js";
import type { Message, MessageType } from "../types/message.js";
import { contentToProto, partFromProto, textOf, type Content } from "../types/part.js";
import {
  budgetToProto,
  usageFromProto,
  type Budget,
  type TaskRef,
  type Usage,
} from "../types/usage.js";
import { byteLength, durationOf, toMs, withoutSurrogates } from "../wire.js";
import { Account, type ModelCall, type Reservation, type ToolCall } from "./account.js";
import { Assignment } from "./assignment.js";
import type { MessageOptions } from "./inbox.js";
import type { Link } from "./link.js";
import { delegatedAnswer, Messenger, taskText, type RequestOptions, type SendOptions } from "./messenger.js";
import { answerFromProto, Question, questionToProto, type GivenAnswer, type QuestionOptions } from "./question.js";
import {
  checkedCheckpoint,
  contextFromProto,
  policyToProto,
  type ContextItem,
  type Delegated,
  type Item,
} from "./values.js";

const MAX_DELTA_CHARS = 16 * 1024;
const MAX_INPUT_ID = 256;

/** A larger tool call or result is not shown while it happens; its record has it. */
const MAX_SHOWN_BYTES = 64 * 1024;

/** Where a delegation goes, and within which limits. */
export interface DelegateOptions {
  /** Either a role or a capability. */
  readonly role?: string;
  readonly capability?: string;
  /** Delegations with the same key are the same; by default those with the same target and input for the n-th time. */
  readonly memoKey?: string;
  /** 60 s by default. */
  readonly timeoutMs?: number;
  readonly budget?: Budget;
  /** Saved with the delegation, as by `save`. */
  readonly checkpoint?: Uint8Array | string;
  /** Cancels the delegated work. */
  readonly signal?: AbortSignal;
}

/** Marks a promise as handled: a handler may await it later, or not at all. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

function* pieces(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + MAX_DELTA_CHARS);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1; // a character is never cut apart
    yield text.slice(start, end);
    start = end;
  }
}

/**
 * One attempt at one task: its assignment, and the handler's way to the orchestrator. Plain methods are cheap and never wait.
 * When the task is cancelled or its time is over, `signal` is aborted, and calls that wait throw.
 */
export class Task extends Assignment {
  /** Whether the role is stateful and the task belongs to a session: its answer extends the session history. */
  readonly remembers: boolean;
  /** @internal */
  readonly account: Account;
  /** @internal */
  deadline: number | undefined;
  /** @internal */
  isOverFor: "all" | undefined;
  #context: readonly ContextProto[];
  #updates = 0;
  readonly #updateWaiters = new Set<() => void>();
  #stoppedWith: number | undefined;
  #offset = 0;
  #delegations = 0;
  #questions = 0;
  #messenger: Messenger | undefined;
  readonly #link: Link;
  readonly #memory: string;

  /** @internal The server makes it. */
  constructor(
    ref: TaskRef,
    assigned: AssignTask,
    link: Link,
    /** Is aborted when the task is cancelled or its time is over; its reason is the ArchonError. */
    readonly signal: AbortSignal,
    { role = "", stateful = false, memory = "" } = {},
  ) {
    super(ref, assigned, role);
    this.#link = link;
    this.#memory = memory;
    this.#context = assigned.context;
    this.account = new Account(assigned.budget, link, role);
    this.remembers = stateful && assigned.conversationId !== "";
    if (assigned.remaining !== undefined) this.deadline = now() + toMs(assigned.remaining);
  }

  /** The answers of the roles that this one depends on, in dependency order: of each role the newest that has arrived. */
  get context(): readonly ContextItem[] {
    return this.#context.map(contextFromProto);
  }

  /** How often `context` has changed since the assignment. */
  get contextUpdates(): number {
    return this.#updates;
  }

  /** Resolves when `context` has changed more than `seen` times since the assignment. */
  contextChanged(seen = this.#updates): Promise<void> {
    return quiet(
      (async (): Promise<void> => {
        while (this.#updates <= seen) {
          this.signal.throwIfAborted();
          await new Promise<void>((resolve) => {
            const done = (): void => {
              this.#updateWaiters.delete(done);
              this.signal.removeEventListener("abort", done);
              resolve();
            };
            this.#updateWaiters.add(done);
            this.signal.addEventListener("abort", done, { once: true });
          });
        }
      })(),
    );
  }

  /** The usage so far. */
  get usage(): Usage {
    return { ...this.account.usage };
  }

  /** Milliseconds left for this task; undefined if there is no limit or the task waits for a person. */
  remainingMs(): number | undefined {
    if (this.deadline === undefined || this.#stoppedWith !== undefined) return undefined;
    return Math.max(0, this.deadline - now());
  }

  /**
   * Whether no attempt needs the result any more. A handler that is cancelled while this is false was stopped because another
   * attempt goes on with the task: work that it has begun in other systems must go on.
   */
  get isOver(): boolean {
    return this.isOverFor === "all";
  }

  // What the handler does

  /** Streams more of the answer's text to watchers. It may be dropped under load; the answer itself is not. */
  write(text: string): void {
    for (const delta of pieces(withoutSurrogates(text))) {
      this.#show({ case: "text", value: delta }, this.#offset);
      this.#offset += byteLength(delta);
    }
  }

  /** Streams more of a model's thinking to watchers; it is not part of the answer. */
  think(text: string): void {
    for (const value of pieces(withoutSurrogates(text))) this.#show({ case: "thinking", value });
  }

  /** Shows watchers that a tool is called, or how it has ended. */
  showTool(event: { callId: string; tool: string; argumentsJson?: string; resultJson?: string; failed?: boolean }): void {
    const { callId, tool, argumentsJson = "", resultJson = "", failed = false } = event;
    const value = create(ToolEventSchema, {
      callId,
      toolName: tool,
      argumentsJson: withoutSurrogates(argumentsJson),
      resultJson: withoutSurrogates(resultJson),
      failed,
    });
    if (toBinary(ToolEventSchema, value).length <= MAX_SHOWN_BYTES) this.#show({ case: "toolEvent", value });
  }

  /** Saves bytes or a text from which a later attempt can resume; the newest counts. Throws FRAME_TOO_LARGE above 1 MiB. */
  save(checkpoint: Uint8Array | string): void {
    this.#link.save(checkedCheckpoint(checkpoint));
  }

  /** Publishes an item before the answer, which replaces it: roles that work at the same time receive it at once. */
  publish(item: Item | string): void {
    const { text = "", policy = "final_response_only", parts = [], metadata = {} } =
      typeof item === "string" ? { text: item } : item;
    const messages = contentToProto([...parts, ...(text ? [{ text }] : [])]);
    if (!textOf(messages).trim()) throw new InvalidArgument("an item to publish needs a text");
    this.#link.publish(
      create(PublishSchema, { parts: messages, policy: policyToProto(policy), metadata: { ...metadata } }),
    );
  }

  /** Delegates a part of this task; returns its answer. Throws the failure of the other role, and those of delegations. */
  delegate(input: Content, options: DelegateOptions): Promise<Delegated> {
    return quiet(this.#delegate(input, options));
  }

  async #delegate(input: Content, options: DelegateOptions): Promise<Delegated> {
    const { role = "", capability = "", memoKey = "", timeoutMs, budget, checkpoint, signal } = options;
    if ((role === "") === (capability === "")) {
      throw new InvalidArgument("a delegation names either a role or a capability");
    }
    const own = currentTrace();
    const trace = own.traceparent ? own : this.trace;
    const delegation = create(DelegateSchema, {
      delegationId: `d${(this.#delegations += 1)}`,
      target: role ? { case: "role", value: role } : { case: "capability", value: capability },
      input: contentToProto(input),
      memoKey,
      checkpoint: checkedCheckpoint(checkpoint),
      ...(budget !== undefined && { budget: budgetToProto(budget) }),
      ...(timeoutMs !== undefined && { timeout: durationOf(Math.max(0, timeoutMs)) }),
      ...(trace.traceparent && { trace: create(TraceContextSchema, trace) }),
    });
    const { result, memoized } = await this.#link.delegate(delegation, signal);
    if (result?.state !== TaskState.COMPLETED) throw fromFailure(result?.failure);
    return {
      text: textOf(result.output),
      parts: result.output.map(partFromProto),
      usage: usageFromProto(result.usage),
      memoized,
      metadata: { ...result.metadata },
    };
  }

  /** Asks a person and returns the text of the answer, while the attempt keeps its state and its slot. */
  async ask(question: string | Question, options: QuestionOptions = {}): Promise<string> {
    return (await this.askQuestion(question, options)).text;
  }

  /**
   * Asks a person and returns the answer with its decision. The time of the run and of this task stands still. The answer
   * belongs to the task: a later attempt that asks with the same `inputId` gets it at once.
   */
  askQuestion(question: string | Question, options: QuestionOptions = {}): Promise<GivenAnswer> {
    return quiet(this.#ask(typeof question === "string" ? new Question(question, options) : question));
  }

  async #ask(question: Question): Promise<GivenAnswer> {
    const { inputId = "" } = question.options;
    if (inputId.length > MAX_INPUT_ID) {
      throw new InvalidArgument(`the inputId of a question has ${inputId.length} characters, at most ${MAX_INPUT_ID}`);
    }
    const request = questionToProto(question, inputId || `a${(this.#questions += 1)}`);
    return this.answers.get(request.inputId) ?? answerFromProto(await this.#link.ask(request));
  }

  /**
   * Asks a person for a secret, such as a credential, and returns it. The answer is encrypted for this attempt: the journal, records
   * and watchers of the run do not have it. A later attempt asks again. Throws InvalidArgument if the answer is not encrypted.
   */
  async askSecret(question: string): Promise<string> {
    const secret = new SecretQuestion();
    const inputId = `secret-${this.attempt}-${(this.#questions += 1)}`;
    return secret.open(await this.ask(question, { schemaJson: secret.schemaJson, inputId }));
  }

  /** Reserves a part of the run's budget beyond the usage so far; call it before a model call. Throws BUDGET_EXHAUSTED. */
  reserve(amount: Reservation = {}): Promise<void> {
    return quiet(this.account.reserve(amount));
  }

  /** Releases the oldest reservation, for a model call that was not made after all. */
  settle(): void {
    this.account.settle();
  }

  /** Counts usage without recording a call: of work that another system did for this task. */
  addUsage(usage: Usage): void {
    this.account.add(usage);
  }

  /**
   * Records a model call exactly as it was made, and counts its usage. The call releases the oldest reservation, unless it is
   * `retried`: then the next try needs it.
   */
  recordModelCall(model: string, call: ModelCall): void {
    this.account.recordModelCall(model, call);
  }

  /** Records a tool call. Arguments and result are JSON values. */
  recordToolCall(tool: string, call: ToolCall): void {
    this.account.recordToolCall(tool, call);
  }

  /** Sends a message to agents of the run, and returns its id once the run's journal has it. */
  send(content: unknown, options: SendOptions = {}): Promise<string> {
    return quiet(this.messenger.send(content, options));
  }

  /** Answers a message, by default with a `task_response`. */
  reply(message: Message, content: unknown, type?: MessageType): Promise<string> {
    return quiet(this.messenger.reply(message, content, type));
  }

  /** Subscribes to the messages for this task, its step and its role, and to topics, and yields them in order. */
  messages(options: MessageOptions = {}): AsyncGenerator<Message, void, undefined> {
    return this.messenger.messages(options);
  }

  /**
   * Sends a message and returns the answer. If no task of the receiver is reading messages, the request becomes a task of its
   * own for the role `to`, as by `delegate`.
   */
  request(content: unknown, to: string, options: RequestOptions = {}): Promise<Message> {
    return quiet(this.#request(content, to, options));
  }

  async #request(content: unknown, to: string, options: RequestOptions): Promise<Message> {
    try {
      return await this.messenger.request(content, to, options);
    } catch (error) {
      if (!(error instanceof ArchonError) || error.reason !== "NO_RECEIVER") throw error;
    }
    const { messageId = "", timeoutMs = 60_000, checkpoint } = options;
    const own = { role: to, memoKey: messageId, timeoutMs, ...(checkpoint !== undefined && { checkpoint }) };
    return delegatedAnswer(to, await this.#delegate(taskText(content), own));
  }

  /** Requests help with an issue of this task from a role, and returns the answer, as `request` does. */
  requestHelp(issue: string, role: string, options: RequestOptions = {}): Promise<Message> {
    return this.request({ issue, task_id: this.taskId }, role, { type: "help_request", ...options });
  }

  /** The values that the tasks of the run share, each with a version. Throws FailedPrecondition without ARCHON_MEMORY. */
  get shared(): WorkingMemoryClient {
    if (!this.runId || this.runId === this.taskId) {
      throw new FailedPrecondition("the task belongs to no run, and shares no values");
    }
    if (!this.#memory) {
      throw new FailedPrecondition("no memory service is configured (ARCHON_MEMORY): tasks share no values");
    }
    return WorkingMemoryClient.shared(this.#memory, this.runId);
  }

  // For the server

  /** @internal */
  get messenger(): Messenger {
    this.#messenger ??= new Messenger(this.#link);
    return this.#messenger;
  }

  /** @internal */
  get messagesRead(): number {
    return this.#messenger?.inbox.readSeq ?? 0;
  }

  /** @internal */
  get contextProto(): readonly ContextProto[] {
    return this.#context;
  }

  /** @internal Adds newer answers to the context. */
  update(items: readonly ContextProto[]): void {
    for (const item of items) {
      const place = this.#context.findIndex((old) => old.ref?.role === item.ref?.role && old.stepId === item.stepId);
      this.#context = place < 0 ? [...this.#context, item] : this.#context.with(place, item);
    }
    this.#updates += 1;
    for (const waiter of [...this.#updateWaiters]) waiter();
  }

  /** @internal Ends all waits for messages. */
  endWaits(error: ArchonError): void {
    this.#messenger?.end(error);
  }

  /** @internal Stops the time of the task. */
  stopClock(): void {
    this.#stoppedWith = this.remainingMs();
  }

  /** @internal Sets the time that is left. */
  setRemaining(ms: number): void {
    if (this.#stoppedWith === undefined) this.deadline = now() + ms;
    else this.#stoppedWith = ms;
  }

  /** @internal The time of the task goes on. */
  startClock(): void {
    if (this.#stoppedWith === undefined) return;
    this.deadline = now() + this.#stoppedWith;
    this.#stoppedWith = undefined;
  }

  #show(content: Progress["content"], offset = 0): void {
    this.#link.progress(create(ProgressSchema, { state: TaskState.WORKING, offset: BigInt(offset), content }));
  }
}
