/** ToolService: decodes calls, hands them to the shared tools, and encodes the answers. */
import { create } from "@bufbuild/protobuf";
import { ToolLeaseSchema } from "../../api/archon/api/tool/v1/tool_pb.js";
import {
  ToolService,
  type ExecuteToolRequest,
  type LeaseToolRequest,
  type ListToolsRequest,
  type RevokeLeaseRequest,
} from "../../api/archon/api/tool/v1/tool_service_pb.js";
import { InvalidArgument, invalidField } from "../../errors.js";
import { toolToProto } from "../../registry/registration.js";
import type { ServedCall, Service } from "../../server.js";
import { refFromProto } from "../../types/usage.js";
import { timestampOf, toMs } from "../../wire.js";
import { LEASE_MS } from "./leases.js";
import type { ToolOwner } from "./toolOwner.js";

const PAGE = 100;
const MAX_PAGE = 1_000;

/** Characters of a name or an id. */
const MAX_ID = 128;

/** Returns the service of the tools that an agent shares. */
export function toolService(owner: ToolOwner): Service {
  return {
    descriptor: ToolService,
    unary: {
      listTools: (request: ListToolsRequest) => listTools(owner, request),
      leaseTool: (request: LeaseToolRequest) => leaseTool(owner, request),
      revokeLease: ({ leaseId }: RevokeLeaseRequest) => {
        owner.revokeLease(leaseId, "holder");
        return {};
      },
    },
    streaming: { executeTool: (request: ExecuteToolRequest, call: ServedCall) => executeTool(owner, request, call) },
  };
}

function listTools(owner: ToolOwner, request: ListToolsRequest): object {
  const size = request.pageSize || PAGE;
  if (size < 1 || size > MAX_PAGE) throw invalidField("page_size", `must be 1 to ${MAX_PAGE}; 0 means ${PAGE}`);
  const after = Buffer.from(request.pageToken, "base64url").toString("utf8");
  if (Buffer.from(after, "utf8").toString("base64url") !== request.pageToken.replace(/=+$/, "")) {
    throw new InvalidArgument("page_token does not belong to this list", { reason: "INVALID_PAGE_TOKEN" });
  }
  const found = owner.advertised.filter((tool) => tool.name > after);
  const page = found.slice(0, size);
  const last = page.at(-1)?.name ?? "";
  const nextPageToken = found.length > size ? Buffer.from(last, "utf8").toString("base64url") : "";
  return { tools: page.map(toolToProto), nextPageToken };
}

function leaseTool(owner: ToolOwner, request: LeaseToolRequest): object {
  const { toolName, instanceId, task } = request;
  const ids = { tool_name: toolName, instance_id: instanceId, "task.task_id": task?.taskId, "task.run_id": task?.runId };
  for (const [field, value = ""] of Object.entries(ids)) {
    if (value.length > MAX_ID) throw invalidField(field, `must have at most ${MAX_ID} characters`);
  }
  const wanted = request.duration === undefined ? LEASE_MS : toMs(request.duration);
  const ref = task?.taskId ? refFromProto(task) : undefined;
  const { lease, ms } = owner.lease(toolName, wanted, ref, instanceId);
  return {
    lease: create(ToolLeaseSchema, {
      leaseId: lease.leaseId,
      toolName,
      expireTime: timestampOf(Date.now() + ms),
      maxCallsPerMinute: lease.window?.rate ?? 0,
    }),
  };
}

async function* executeTool(owner: ToolOwner, request: ExecuteToolRequest, call: ServedCall): AsyncGenerator<object> {
  const { leaseId, argumentsJson, timeout, idempotencyKey, trace } = request;
  const events = owner.execute({
    leaseId,
    argumentsJson,
    timeoutMs: timeout === undefined ? undefined : toMs(timeout),
    idempotencyKey,
    trace: { traceparent: trace?.traceparent ?? "", tracestate: trace?.tracestate ?? "" },
    signal: call.signal,
  });
  for await (const event of events) {
    yield { event: typeof event === "string" ? { case: "progress", value: event } : { case: "result", value: event } };
  }
}
