/** Errors round-trip: every reason of the contract, with all that an error has, through RPCs and through frames. */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { ErrorReason, FailureSchema } from "../src/api/archon/api/common/v1/failure_pb.js";
import { StatusSchema } from "../src/api/google/rpc/status_pb.js";
import { ArchonError, errorOfReason, fromFailure, setLogger, toFailure, Unavailable, type Reason } from "../src/index.js";
import { KINDS, REASONS } from "../src/reasons.js";
import { asError, connectionText, fromServiceError, fromStatus, toServiceError, toStatus } from "../src/status.js";

const NAMES = Object.keys(REASONS) as Reason[];

/** All that an error has. */
function all(error: ArchonError): object {
  const { code, reason, message, kind, severity, retry, retryDelayMs, metadata, fieldViolations, failureClass } = error;
  return { code, reason, message, kind, severity, retry, retryDelayMs, metadata, fieldViolations, failureClass };
}

describe("errors", () => {
  test("the text about a connection that cannot be made says why, and has nothing of gRPC's own", () => {
    const text = "No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:9. Resolution note: ";
    const expected = "No connection established: connect ECONNREFUSED 127.0.0.1:9; is it running, and is the address right?";
    expect(connectionText(text)).toBe(expected);
    expect(connectionText("no such role")).toBe("no such role");
  });

  test("the table has every reason of the contract", () => {
    const values = Object.entries(ErrorReason).filter(([name, number]) => typeof number === "number" && name !== "UNSPECIFIED");
    expect(values.map(([name]) => name).sort()).toEqual([...NAMES].sort());
    for (const [name, number] of values) expect(REASONS[name as Reason].number).toBe(number);
  });

  test.each(NAMES)("%s round-trips through a status and through a failure", (reason) => {
    const options = {
      metadata: { a: "b", ü: "☃" },
      fieldViolations: [{ field: "goal[0]", description: "empty" }],
      retryDelayMs: 1_500,
      severity: "HIGH" as const,
      kind: "tool.timeout",
    };
    for (const error of [errorOfReason(reason, "message of it"), errorOfReason(reason, "all of it", options)]) {
      const failure = fromBinary(FailureSchema, toBinary(FailureSchema, toFailure(error)));
      expect(all(fromFailure(failure))).toEqual(all(error));
      const status = fromBinary(StatusSchema, toBinary(StatusSchema, toStatus(error)));
      expect(all(fromStatus(status))).toEqual({ ...all(error), severity: KINDS[error.kind as keyof typeof KINDS].severity });
    }
  });

  test("a reason and a kind that are not in the contract are kept", () => {
    const error = new Unavailable("x", { reason: "OWN_REASON", kind: "own.kind" });
    expect(fromFailure(toFailure(error))).toMatchObject({ reason: "OWN_REASON", kind: "own.kind", code: "UNAVAILABLE" });
    expect(fromServiceError(toServiceError(error) as never)).toMatchObject({ reason: "OWN_REASON", kind: "own.kind" });
    expect(new Unavailable("x", { reason: "constructor", kind: "toString" }).failureClass).toBe("INFRASTRUCTURE");
  });

  test("details stay below 4 KB, whatever an error has", () => {
    const long = "☃".repeat(5_000);
    const violations = Array.from({ length: 50 }, () => ({ field: long, description: long }));
    const metadata = Object.fromEntries(Array.from({ length: 30 }, (_, number) => [`key${number}`, long]));
    const error = new Unavailable(long, { fieldViolations: violations, metadata, retryDelayMs: 1, reason: "NO_CAPACITY" });
    const bytes = toBinary(StatusSchema, toStatus(error));
    expect(bytes.length).toBeLessThanOrEqual(4096);
    expect(fromStatus(fromBinary(StatusSchema, bytes)).reason).toBe("NO_CAPACITY");
  });

  test("causes are flat, and bounded", () => {
    let cause = new Unavailable("innermost");
    for (let depth = 0; depth < 30; depth += 1) cause = new Unavailable(`${depth}`, { causes: [cause] });
    const { causes } = fromFailure(toFailure(cause));
    expect(causes).toHaveLength(16);
    expect(causes.every((each) => each.causes.length === 0)).toBe(true);
  });

  test("an unexpected exception crosses the wire as an incident, and its text only in the log", () => {
    const lines: unknown[] = [];
    setLogger((level, message, detail) => lines.push([level, message, detail]));
    const secret = new Error("password 123");
    const error = asError(secret, "tool.crash");
    setLogger(() => undefined);
    expect(error).toMatchObject({ code: "INTERNAL", kind: "tool.crash" });
    expect(error.message).not.toContain("123");
    expect(error.message).toContain(error.metadata["incident"] as string);
    expect(lines).toEqual([["error", expect.stringContaining("incident"), secret]]);
  });

  test("an unknown code or enum value reads as unset", () => {
    const failure = toFailure(new Unavailable("x"));
    Object.assign(failure, { code: 99, reason: 9_999, retry: 9, severity: 9, failureClass: 9, kind: "" });
    expect(fromFailure(failure)).toMatchObject({ code: "UNKNOWN", reason: "UNKNOWN", retry: "NEVER" });
  });
});
