/** Errors of calls, as the page shows them. */
import { CallError } from "./calls.js";

export interface Problem {
  /** One sentence for the reader. */
  readonly message: string;
  /** The code of the error, such as `NOT_FOUND`. */
  readonly code: string;
}

/** Returns the problem behind anything that a call threw. */
export function problemOf(thrown: unknown): Problem {
  const code = thrown instanceof CallError ? thrown.code : "unknown";
  return { message: thrown instanceof Error ? thrown.message : String(thrown), code: code.toUpperCase() };
}
