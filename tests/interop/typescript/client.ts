// A client that uses generated stubs only: submits a run, watches it, cancels the watch, resumes it, and reads a typed error.
// `node dist/client.js HOST:PORT` prints a report as a JSON object.
import { credentials, Metadata, ServiceError, status } from "@grpc/grpc-js";
import { Part } from "./stubs/archon/api/common/v1/common";
import { ErrorReason, errorReasonFromJSON } from "./stubs/archon/api/common/v1/failure";
import {
  OrchestratorServiceClient,
  SubmitRunRequest,
  SubmitRunResponse,
  WatchRunRequest,
  WatchRunResponse,
} from "./stubs/archon/api/orchestrator/v1/orchestrator_service";
import { RunEvent } from "./stubs/archon/api/orchestrator/v1/run";
import { BadRequest, ErrorInfo } from "./stubs/google/rpc/error_details";
import { Status } from "./stubs/google/rpc/status";

const BREAK_AFTER = 3;

// The token of ARCHON_TOKEN, which every call presents.
function token(): Metadata {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${process.env.ARCHON_TOKEN ?? ""}`);
  return metadata;
}

type TypedError = { code: string; reason: string; known: boolean; domain: string; message: string; fields: string[] };

function text(parts: Part[]): string {
  return parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("");
}

function submit(client: OrchestratorServiceClient, request: Partial<SubmitRunRequest>): Promise<SubmitRunResponse> {
  return new Promise((resolve, reject) => {
    client.submitRun(SubmitRunRequest.fromPartial(request), token(), { deadline: Date.now() + 10_000 }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    );
  });
}

// Returns the events after `afterSeq` until the run has ended. If `enough` returns true, it cancels the stream.
function watch(
  client: OrchestratorServiceClient,
  runId: string,
  afterSeq: number,
  enough: (durable: RunEvent[]) => boolean,
): Promise<{ events: RunEvent[]; ended: string }> {
  const stream = client.watchRun(WatchRunRequest.fromPartial({ runId, afterSeq }), token());
  const events: RunEvent[] = [];
  return new Promise((resolve, reject) => {
    stream.on("data", (batch: WatchRunResponse) => {
      for (const event of batch.events) {
        events.push(event);
        if (enough(events.filter((one) => one.seq > 0))) {
          stream.cancel();
          return;
        }
      }
    });
    stream.on("end", () => resolve({ events, ended: "OK" }));
    stream.on("error", (error: ServiceError) =>
      error.code === status.CANCELLED ? resolve({ events, ended: "CANCELLED" }) : reject(error),
    );
  });
}

// Returns the reason of a failed call from the google.rpc details in its trailers.
function typed(error: ServiceError): TypedError {
  const found: TypedError = {
    code: status[error.code] ?? String(error.code),
    reason: "",
    known: false,
    domain: "",
    message: error.details,
    fields: [],
  };
  for (const raw of error.metadata.get("grpc-status-details-bin")) {
    for (const detail of Status.decode(raw as Buffer).details) {
      if (detail.typeUrl.endsWith("/google.rpc.ErrorInfo")) {
        const info = ErrorInfo.decode(detail.value);
        found.reason = info.reason;
        found.domain = info.domain;
        found.known = errorReasonFromJSON(`ERROR_REASON_${info.reason}`) !== ErrorReason.UNRECOGNIZED;
      } else if (detail.typeUrl.endsWith("/google.rpc.BadRequest")) {
        found.fields = BadRequest.decode(detail.value).fieldViolations.map((violation) => violation.field);
      }
    }
  }
  return found;
}

async function failing(client: OrchestratorServiceClient, request: Partial<SubmitRunRequest>): Promise<TypedError> {
  try {
    await submit(client, request);
  } catch (error) {
    return typed(error as ServiceError);
  }
  throw new Error("the call didn't fail");
}

async function main(address: string): Promise<void> {
  const client = new OrchestratorServiceClient(address, credentials.createInsecure());
  const goal: Part[] = [Part.fromPartial({ content: { $case: "text", value: "The clerk must see overdue books." } })];
  const request = { requestId: `ts-${process.pid}-${Date.now()}`, goal, sessionId: "typescript" };
  const first = await submit(client, request);
  const again = await submit(client, request);
  const runId = first.run?.runId ?? "";

  const before = await watch(client, runId, 0, (durable) => durable.length === BREAK_AFTER);
  const seen = Math.max(...before.events.map((event) => event.seq));
  const after = await watch(client, runId, seen, () => false);

  const all = [...before.events, ...after.events];
  const results = all.flatMap((event) => (event.event?.$case === "result" ? [event.event.value] : []));
  const ended = all.at(-1)?.event;
  const report = {
    run_id: runId,
    same_run_again: again.run?.runId === runId && again.repeatedBefore,
    before: { seqs: before.events.map((event) => event.seq).filter(Boolean), ended: before.ended },
    after: { seqs: after.events.map((event) => event.seq).filter(Boolean), ended: after.ended },
    kinds: all.filter((event) => event.seq > 0).map((event) => event.event?.$case ?? ""),
    times_are_dates: all.every((event) => event.seq === 0 || event.time instanceof Date),
    answers: Object.fromEntries(results.map((result) => [result.role, text(result.output)])),
    state: ended?.$case === "runState" ? ended.value.state : -1,
    unknown_role: await failing(client, { goal, roles: ["absent"] }),
    empty_goal: await failing(client, { goal: [] }),
  };
  console.log(JSON.stringify(report));
  client.close();
}

main(process.argv[2] ?? "127.0.0.1:7100").catch((error) => {
  console.error(error);
  process.exit(1);
});
