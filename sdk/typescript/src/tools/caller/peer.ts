/** The connection to an instance that shares tools: each call has a deadline, and answers of any size and number are bounded. */
import { create } from "@bufbuild/protobuf";
import { TraceContextSchema } from "../../api/archon/api/common/v1/common_pb.js";
import { ToolService } from "../../api/archon/api/tool/v1/tool_service_pb.js";
import { agentOptions, Channel } from "../../channel.js";
import { currentTrace } from "../../context.js";
import { InvalidArgument, UnknownFailure, type ArchonError } from "../../errors.js";
import { agentPeer } from "../../security/peer.js";
import type { CallCredentials } from "../../security/credentials.js";
import { neverConnected } from "../../status.js";
import { refToProto, type TaskRef } from "../../types/usage.js";
import { byteLength, durationOf, jsonText, withoutSurrogates } from "../../wire.js";
import { BEGUN } from "../owner/toolOwner.js";
import { resultFromProto, type SharedToolResult } from "../result.js";
import { MAX_ARGUMENTS_BYTES } from "../sharedTool.js";

/** Milliseconds for LeaseTool, and for RevokeLease. */
const LEASE_CALL_MS = 5_000;
export const REVOKE_MS = 2_000;

/** Milliseconds that an owner has to answer after the time of a call. */
const ANSWER_MS = 1_000;

/** Bytes of an answer that are taken from an owner. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** Characters of a text of progress, and texts of one call that are passed on. */
const MAX_PROGRESS = 1_000;

/** One call of a leased tool. */
export interface PeerCall {
  readonly leaseId: string;
  readonly argumentsJson: string;
  readonly timeoutMs: number;
  readonly idempotencyKey: string;
  readonly onProgress?: ((text: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An instance that shares tools. Close it. */
export class ToolPeer {
  readonly #channel: Channel;

  constructor(
    readonly address: string,
    role: string,
    credentials?: CallCredentials,
  ) {
    const options = { ...agentOptions(), "grpc.max_receive_message_length": MAX_ANSWER_BYTES };
    this.#channel = new Channel(address, agentPeer(role), { options, ...(credentials && { credentials }) });
  }

  close(): void {
    this.#channel.close();
  }

  /** Leases a tool. Returns the id of the lease. */
  async lease(
    toolName: string,
    task: TaskRef | undefined,
    instanceId: string,
    durationMs: number,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<string> {
    const ref = task === undefined ? {} : { task: refToProto(task) };
    const request = { toolName, instanceId, duration: durationOf(durationMs), ...ref };
    const call = { timeoutMs: Math.min(timeoutMs, LEASE_CALL_MS), signal };
    return (await this.#channel.unary(ToolService.method.leaseTool, request, call)).lease?.leaseId ?? "";
  }

  /** Ends a lease. */
  async revoke(leaseId: string): Promise<void> {
    await this.#channel.unary(ToolService.method.revokeLease, { leaseId }, { timeoutMs: REVOKE_MS });
  }

  /** Executes a call. Throws UnknownFailure if it ends without a result. */
  async execute(call: PeerCall): Promise<SharedToolResult> {
    const trace = currentTrace();
    const request = {
      leaseId: call.leaseId,
      argumentsJson: call.argumentsJson,
      timeout: durationOf(call.timeoutMs),
      idempotencyKey: withoutSurrogates(call.idempotencyKey),
      ...(trace.traceparent && { trace: create(TraceContextSchema, trace) }),
    };
    const options = { timeoutMs: call.timeoutMs + ANSWER_MS, signal: call.signal };
    let told = 0;
    for await (const { event } of this.#channel.serverStream(ToolService.method.executeTool, request, options)) {
      if (event.case === "result") return resultFromProto(event.value);
      if (event.case !== "progress" || !event.value || told >= MAX_PROGRESS) continue;
      told += 1;
      call.onProgress?.(event.value.slice(0, MAX_PROGRESS));
    }
    throw new UnknownFailure("the owner of the tool ended the call without a result", { kind: "tool.crash" });
  }
}

/** Returns arguments as JSON. Throws InvalidArgument if they are no JSON object, or too large. */
export function encodeArguments(args: Readonly<Record<string, unknown>>): string {
  const text = jsonText({ ...args });
  if (byteLength(text) <= MAX_ARGUMENTS_BYTES) return text;
  throw new InvalidArgument(`the arguments have more than ${MAX_ARGUMENTS_BYTES} bytes`);
}

/** Whether a call that ended with this error was certainly not begun by its owner (contract rule 14). */
export function wasNotBegun(error: ArchonError): boolean {
  const begun = error.metadata[BEGUN];
  if (begun === "true") return false;
  if (["NOT_FOUND", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"].includes(error.code)) return true;
  return error.code === "UNAVAILABLE" && (begun === "false" || neverConnected(error));
}
