/** Calls of a task that wait for its orchestrator: delegations, questions, requests for more of the budget, messages. */
import { create } from "@bufbuild/protobuf";
import { InputRequestSchema, type InputRequest } from "../api/archon/api/agent/v1/agent_pb.js";
import { PeerMessageSchema, type PeerMessage } from "../api/archon/api/agent/v1/message_pb.js";
import {
  BudgetRequestSchema,
  CancelDelegationSchema,
  DelegateSchema,
  SubscribeSchema,
  type BudgetGrant,
  type Delegate,
  type DelegateResult,
  type Input,
  type MessageResult,
  type OrchestratorFrame,
  type Subscribe,
} from "../api/archon/api/agent/v1/session_pb.js";
import type { Budget } from "../api/archon/api/common/v1/common_pb.js";
import { abortError, onAbort } from "../channel.js";
import { InvalidArgument, OperationCancelled, Unimplemented, type ArchonError } from "../errors.js";
import { agentContent, type FrameChannel } from "../frames.js";

/** Messages of an attempt that may wait for the journal at a time; further ones wait before they are sent. */
const MAX_SENDING = 32;

/** The attempt that makes the calls. */
export interface PendingCaller {
  readonly channel: FrameChannel;
  readonly limit: number;
  readonly working: boolean;
  /** Why the attempt is being stopped. */
  readonly halted: ArchonError | undefined;
  agreed(feature: string): boolean;
  flush(): void;
  send(content: Uint8Array): void;
  stopClock(): void;
  startClock(): void;
}

interface Waiting<T> {
  resolve(answer: T): void;
  reject(error: ArchonError): void;
}

type Table<T> = Map<string, Waiting<T>>;

/** Lets a number of holders in at a time; the others wait in turn. */
class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  async enter(): Promise<() => void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next !== undefined) next();
      else this.#free += 1;
    };
  }
}

/** The pending calls of one attempt. An answer may come twice, from two owners: the first counts. */
export class PendingCalls {
  readonly #delegations: Table<DelegateResult> = new Map();
  readonly #requests: Table<BudgetGrant> = new Map();
  readonly #questions: Table<Input> = new Map();
  readonly #messages: Table<MessageResult> = new Map();
  readonly #sending = new Gate(MAX_SENDING);
  readonly #asking = new Gate(1);
  #number = 0;

  constructor(readonly caller: PendingCaller) {}

  /** Whether a delegation is pending: the attempt takes no slot then. */
  get waiting(): boolean {
    return this.#delegations.size > 0;
  }

  /** Sends a delegation and waits for its result. If the caller gives up, the orchestrator learns that it is not needed. */
  async delegate(delegation: Delegate, signal?: AbortSignal): Promise<DelegateResult> {
    const content = agentContent("delegate", DelegateSchema, delegation);
    this.#check(content, "delegate");
    if (signal?.aborted) throw abortError(signal);
    this.caller.flush();
    const { delegationId } = delegation;
    let release = (): void => undefined;
    try {
      const answer = this.#call(this.#delegations, delegationId, content);
      release = onAbort(signal, () => this.#delegations.get(delegationId)?.reject(abortError(signal as AbortSignal)));
      return await answer;
    } catch (error) {
      if (this.caller.working && (signal?.aborted || this.caller.halted !== undefined)) {
        const unneeded = create(CancelDelegationSchema, { delegationId });
        this.caller.send(agentContent("cancelDelegation", CancelDelegationSchema, unneeded));
      }
      throw error;
    } finally {
      release();
    }
  }

  /** Requests more of the budget and waits for the grant. */
  reserve(budget: Budget): Promise<BudgetGrant> {
    const request = create(BudgetRequestSchema, { budget, requestId: `b${(this.#number += 1)}` });
    const content = agentContent("budgetRequest", BudgetRequestSchema, request);
    this.#check(content, "budget");
    return this.#call(this.#requests, request.requestId, content);
  }

  /** Sends a message and waits until the orchestrator has taken or refused it. */
  async sendMessage(message: PeerMessage): Promise<MessageResult> {
    const content = agentContent("sendMessage", PeerMessageSchema, message);
    this.#check(content, "messages");
    if (this.#messages.has(message.messageId)) {
      throw new InvalidArgument(`a message with the id '${message.messageId}' is on its way`);
    }
    const leave = await this.#sending.enter();
    try {
      this.#check(content, "messages");
      this.caller.flush();
      return await this.#call(this.#messages, message.messageId, content);
    } finally {
      leave();
    }
  }

  /** Subscribes to messages of other agents. */
  subscribe(subscription: Subscribe): void {
    const content = agentContent("subscribe", SubscribeSchema, subscription);
    this.#check(content, "messages");
    this.caller.send(content);
  }

  /** Asks a person, as long as it takes: the time of the task stands still. Questions are asked one after another. */
  async ask(question: InputRequest): Promise<Input> {
    const content = agentContent("ask", InputRequestSchema, question);
    const leave = await this.#asking.enter();
    try {
      this.#check(content, "input");
      this.caller.flush();
      this.caller.stopClock();
      try {
        return await this.#call(this.#questions, question.inputId, content);
      } finally {
        this.caller.startClock();
      }
    } finally {
      leave();
    }
  }

  /** Takes an answer of the orchestrator; drops it if no call waits for it. */
  answered(frame: OrchestratorFrame["frame"]): void {
    switch (frame.case) {
      case "delegateResult":
        this.#delegations.get(frame.value.delegationId)?.resolve(frame.value);
        break;
      case "input":
        this.#questions.get(frame.value.inputId)?.resolve(frame.value);
        break;
      case "messageResult":
        this.#messages.get(frame.value.messageId)?.resolve(frame.value);
        break;
      case "budgetGrant":
        this.#requests.get(frame.value.requestId)?.resolve(frame.value);
        break;
      default:
        break;
    }
  }

  /** Fails all calls. */
  refuse(error: ArchonError): void {
    for (const table of [this.#delegations, this.#requests, this.#questions, this.#messages]) {
      for (const waiting of [...table.values()]) waiting.reject(error);
    }
  }

  #check(content: Uint8Array, feature: string): void {
    if (this.caller.halted !== undefined) throw this.caller.halted;
    if (!this.caller.working) throw new OperationCancelled("the task is over");
    if (!this.caller.agreed(feature)) {
      throw new Unimplemented(`the caller of this task does not support the feature ${feature}`);
    }
    this.caller.channel.checkSize(content, this.caller.limit);
  }

  #call<T>(table: Table<T>, name: string, content: Uint8Array): Promise<T> {
    const answer = new Promise<T>((resolve, reject) => {
      const end = (): void => void (table.get(name) === waiting && table.delete(name));
      const waiting: Waiting<T> = {
        resolve: (value) => {
          end();
          resolve(value);
        },
        reject: (error) => {
          end();
          reject(error);
        },
      };
      table.set(name, waiting);
    });
    this.caller.send(content);
    return answer;
  }
}
