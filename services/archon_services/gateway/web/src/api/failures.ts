/** In place of the errors of the SDK for TypeScript, which its fold of a run makes of failures: the page shows their messages. */
import type { Failure } from "@api/archon/api/common/v1/failure_pb.js";

export class InvalidArgument extends Error {}
export class ResourceExhausted extends Error {}

export function fromFailure(failure: Failure | undefined): Error {
  return new Error(failure?.message ?? "");
}
