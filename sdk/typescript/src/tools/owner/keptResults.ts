/** Results by idempotency key, so that a repeated call does not act a second time. */
import { toBinary } from "@bufbuild/protobuf";
import { ToolResultSchema, type ToolResult } from "../../api/archon/api/tool/v1/tool_pb.js";
import { now } from "../../context.js";
import { AlreadyExists } from "../../errors.js";
import { Execution } from "./execution.js";

/** Results that are kept by their keys, their bytes, and how long; the oldest are forgotten first. */
const MAX_KEPT = 10_000;
const MAX_KEPT_BYTES = 32 * 1024 * 1024;
const KEPT_MS = 3_600_000;

interface Kept {
  readonly digest: string;
  outcome: Execution | ToolResult;
  at: number;
  size: number;
}

/** The executions in progress and the results of calls that had a key. */
export class KeptResults {
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;

  /** Returns the execution in progress, or the result, of an earlier call with this key. Throws REQUEST_ID_REUSED. */
  find(key: string, digest: string): Execution | ToolResult | undefined {
    let kept = this.#kept.get(key);
    if (kept !== undefined && !(kept.outcome instanceof Execution) && kept.at + KEPT_MS <= now()) {
      this.forget(key);
      kept = undefined;
    }
    if (kept !== undefined && kept.digest !== digest) {
      throw new AlreadyExists("the idempotency key was used before with other arguments", { reason: "REQUEST_ID_REUSED" });
    }
    return kept?.outcome;
  }

  /** Notes the execution of a call. */
  begin(key: string, digest: string, execution: Execution): void {
    this.#kept.set(key, { digest, outcome: execution, at: now(), size: 0 });
  }

  /** Keeps the result in place of the execution, and forgets the oldest ones above the bounds. */
  keep(key: string, result: ToolResult): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    const size = toBinary(ToolResultSchema, result).length + key.length + 200;
    Object.assign(kept, { outcome: result, at: now(), size });
    this.#bytes += size;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    for (const [oldest, each] of this.#kept) {
      if (this.#kept.size <= MAX_KEPT && this.#bytes <= MAX_KEPT_BYTES) return;
      if (!(each.outcome instanceof Execution)) this.forget(oldest);
    }
  }

  /** Forgets a key: the next call with it is executed. */
  forget(key: string): void {
    this.#bytes -= this.#kept.get(key)?.size ?? 0;
    this.#kept.delete(key);
  }
}
