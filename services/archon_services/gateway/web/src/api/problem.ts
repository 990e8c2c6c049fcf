/** Errors of calls, as the page shows them. */
import { Code, ConnectError } from "@connectrpc/connect";

export interface Problem {
  /** One sentence for the reader. */
  readonly message: string;
  /** The code of the error, such as `NOT_FOUND`. */
  readonly code: string;
}

/** Returns the problem behind anything that a call threw. */
export function problemOf(thrown: unknown): Problem {
  const error = ConnectError.from(thrown);
  const code = Code[error.code].replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase();
  return { message: error.rawMessage, code };
}
