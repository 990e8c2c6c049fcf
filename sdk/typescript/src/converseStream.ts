/** ConverseStream: many runs on one stream, commands one way, the events of all runs the other. */
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";
import {
  ConverseRequestSchema,
  ConverseResponseSchema,
  type ConverseReply,
  type ConverseResponse,
} from "./api/archon/api/orchestrator/v1/orchestrator_service_pb.js";
import { ArchonError, DeadlineExceeded, Unavailable } from "./errors.js";
import { asError, fromFailure, malformed } from "./status.js";
import { submitRequest, type SubmitOptions } from "./submission.js";
import { checkedContent, type Content } from "./types/part.js";
import { Run, RunEvent } from "./types/run.js";
import { toInt64 } from "./wire.js";

const COMMAND_MS = 30_000;

/** Events that wait for the reader; above it the stream is not read. */
const MAX_WAITING = 10_000;

interface Waiting {
  resolve(run: Run): void;
  reject(error: ArchonError): void;
}

/**
 * One Converse stream. Iterate over it for the events of all watched runs, in order per run, and send commands at the same time.
 * It does not reconnect: if it breaks, `Client.watch` resumes each run after its last event.
 */
export class ConverseStream implements AsyncIterable<RunEvent> {
  readonly #answers = new Map<string, Waiting>();
  #events: RunEvent[] = [];
  #number = 0;
  #hasEnded = false;
  #error: ArchonError | undefined;
  #wake: () => void = () => undefined;

  /** @internal */
  constructor(readonly call: ClientDuplexStream<Uint8Array, Buffer>) {
    call.on("data", (bytes: Buffer) => this.#received(bytes));
    call.on("error", (error: unknown) => {
      this.#error ??= asError(error);
    });
    call.on("status", (status: StatusObject) => {
      this.#hasEnded = true;
      if (status.code !== 0) this.#error ??= asError(Object.assign(new Error(status.details), status));
      for (const waiting of this.#answers.values()) waiting.reject(this.#ended());
      this.#answers.clear();
      this.#wake();
    });
  }

  /** Submits a run and watches it. */
  submit(goal: Content, options: SubmitOptions = {}): Promise<Run> {
    return this.#command({ case: "submit", value: submitRequest(goal, options) });
  }

  /** Watches an existing run. */
  watch(runId: string, afterSeq = 0): Promise<Run> {
    return this.#command({ case: "watch", value: { runId, afterSeq: toInt64(afterSeq, "afterSeq") } });
  }

  /** Requests that a run be cancelled. */
  cancel(runId: string, reason = ""): Promise<Run> {
    return this.#command({ case: "cancel", value: { runId, reason } });
  }

  /** Answers a question of a run. */
  respond(runId: string, inputId: string, answer: Content, { requestId = "" } = {}): Promise<Run> {
    const parts = checkedContent(answer, "the answer");
    return this.#command({ case: "respond", value: { runId, inputId, parts, requestId } });
  }

  /** Ends the commands: the stream ends after the last event of the watched runs. */
  done(): void {
    if (!this.#hasEnded) this.call.end();
  }

  /** Ends the stream at once. Idempotent. */
  close(): void {
    this.call.cancel();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<RunEvent, void, undefined> {
    while (true) {
      const events = this.#events;
      this.#events = [];
      if (this.call.isPaused()) this.call.resume();
      yield* events;
      if (this.#events.length > 0) continue;
      if (this.#hasEnded) {
        if (this.#error !== undefined) throw this.#error;
        return;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #command(command: MessageInitShape<typeof ConverseRequestSchema>["command"]): Promise<Run> {
    if (this.#hasEnded || this.call.writableEnded) return Promise.reject(this.#ended());
    const correlationId = `${(this.#number += 1)}`;
    const request = create(ConverseRequestSchema, { correlationId, command });
    return new Promise<Run>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#answers.delete(correlationId);
        reject(new DeadlineExceeded(`no answer within ${COMMAND_MS / 1000} s`));
      }, COMMAND_MS);
      this.#answers.set(correlationId, {
        resolve: (run) => {
          clearTimeout(timer);
          resolve(run);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.call.write(toBinary(ConverseRequestSchema, request));
    });
  }

  #received(bytes: Buffer): void {
    let response: ConverseResponse;
    try {
      response = fromBinary(ConverseResponseSchema, bytes);
    } catch {
      this.#error ??= malformed();
      this.call.cancel();
      return;
    }
    const { replies, events } = response;
    for (const reply of replies) this.#answer(reply);
    for (const event of events) this.#events.push(new RunEvent(event));
    if (this.#events.length >= MAX_WAITING) this.call.pause();
    this.#wake();
  }

  #answer({ correlationId, reply }: ConverseReply): void {
    const waiting = this.#answers.get(correlationId);
    this.#answers.delete(correlationId);
    if (reply.case === "run") waiting?.resolve(new Run(reply.value));
    else if (reply.case === "failure") waiting?.reject(fromFailure(reply.value));
  }

  #ended(): ArchonError {
    return this.#error ?? new Unavailable("the Converse stream has ended");
  }
}
