/** A tool that an agent lends to other agents, and a call of it. */
import { InvalidArgument, type FieldViolation } from "../errors.js";
import type { Tool } from "../registry/registration.js";
import { parseSchema, SchemaCheck } from "../schema.js";
import type { TaskRef } from "../types/usage.js";
import { byteLength } from "../wire.js";

export const MAX_RATE = 10_000;

/** Milliseconds of a call at most, whatever its caller asks for. */
export const MAX_CALL_MS = 3_600_000;

/** Bytes of the arguments of a call as JSON. */
export const MAX_ARGUMENTS_BYTES = 1024 * 1024;
const MAX_NAME = 128;
const MAX_VIOLATIONS = 5;

/** A call of a shared tool, as its owner sees it. */
export interface SharedToolCall {
  readonly toolName: string;
  /** The attempt that the tool was leased for, in the words of the caller. */
  readonly task: TaskRef | undefined;
  /** The instance that leased it, in the words of the caller. */
  readonly instanceId: string;
  /** Is aborted when the call is over: its time, its lease, or its last caller. */
  readonly signal: AbortSignal;
  /** Sends progress to the caller, a text for people. Never waits. */
  report(text: string): void;
  /** Milliseconds that the call has left. */
  remainingMs(): number;
}

/** A tool that other agents may lease and execute here. */
export interface SharedTool {
  readonly tool: Tool;
  /** Executes a call with valid arguments. Returns a JSON value; what it throws becomes an error result. */
  execute(args: Record<string, unknown>, call: SharedToolCall): unknown;
  /** Calls per minute with one lease; 0: any number. 60 by default. */
  readonly maxCallsPerMinute?: number;
  /** Calls per minute with all leases together; 0: any number. 600 by default. */
  readonly totalPerMinute?: number;
  /** Calls in progress at a time; 16 by default. */
  readonly maxConcurrent?: number;
  /** 1 h by default, and at most. */
  readonly timeoutMs?: number;
}

/** A shared tool with all its limits. */
export type LimitedTool = Required<SharedTool>;

/** Returns a tool with its limits. Throws InvalidArgument if one is out of range, or the tool has no name. */
export function checkedTool(shared: SharedTool): LimitedTool {
  const { name } = shared.tool;
  const tool: LimitedTool = {
    tool: shared.tool,
    execute: (args, call) => shared.execute(args, call),
    maxCallsPerMinute: shared.maxCallsPerMinute ?? 60,
    totalPerMinute: shared.totalPerMinute ?? 600,
    maxConcurrent: shared.maxConcurrent ?? 16,
    timeoutMs: shared.timeoutMs ?? MAX_CALL_MS,
  };
  if (name.length === 0 || name.length > MAX_NAME) {
    throw new InvalidArgument(`the name of a shared tool must have 1 to ${MAX_NAME} characters`);
  }
  for (const limit of ["maxCallsPerMinute", "totalPerMinute"] as const) {
    if (!(tool[limit] >= 0 && tool[limit] <= MAX_RATE)) {
      throw new InvalidArgument(`shared tool ${name}: ${limit} must be 0 to ${MAX_RATE}; 0 is any number`);
    }
  }
  if (!(tool.maxConcurrent >= 1)) throw new InvalidArgument(`shared tool ${name}: maxConcurrent must be at least 1`);
  if (!(tool.timeoutMs > 0 && tool.timeoutMs <= MAX_CALL_MS)) {
    throw new InvalidArgument(`shared tool ${name}: timeoutMs must be above 0 and at most ${MAX_CALL_MS}`);
  }
  return tool;
}

/** Reads the arguments of calls, and validates them against the schema of a tool. */
export class ArgumentCheck {
  readonly #check: SchemaCheck | undefined;

  /** Throws InvalidArgument if the schema is no JSON Schema. */
  constructor(readonly tool: Tool) {
    const what = `the schema of tool ${tool.name}`;
    const text = tool.inputSchemaJson ?? "";
    this.#check = text ? new SchemaCheck(parseSchema(text, what), what) : undefined;
  }

  /** Returns the arguments of a call. Throws InvalidArgument with each invalid field. */
  read(text: string): Record<string, unknown> {
    if (text.length > MAX_ARGUMENTS_BYTES || byteLength(text) > MAX_ARGUMENTS_BYTES) {
      throw this.#invalid([{ field: "arguments_json", description: `must have at most ${MAX_ARGUMENTS_BYTES} bytes` }]);
    }
    let value: unknown;
    try {
      value = JSON.parse(text || "{}");
    } catch {
      value = undefined;
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw this.#invalid([{ field: "arguments_json", description: "must be a JSON object" }]);
    }
    const violations = this.#check?.violations(value, MAX_VIOLATIONS) ?? [];
    if (violations.length > 0) throw this.#invalid(violations);
    return value as Record<string, unknown>;
  }

  #invalid(fieldViolations: FieldViolation[]): InvalidArgument {
    const details = fieldViolations.map(({ field, description }) => `${field}: ${description}`).join("; ");
    return new InvalidArgument(`invalid arguments for tool ${this.tool.name}: ${details}`, {
      fieldViolations,
      kind: "tool.invalid_parameters",
    });
  }
}
