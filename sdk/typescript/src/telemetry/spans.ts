/** Spans of tasks, shared tools and unary calls, by OpenTelemetry's API: they are recorded if the process has a provider. */
import {
  context as otelContext,
  createTraceState,
  SpanKind,
  SpanStatusCode,
  trace as otelTrace,
  TraceFlags,
  type Attributes,
  type Context,
  type Span,
} from "@opentelemetry/api";
import { current, type TraceContext } from "../context.js";
import type { ArchonError } from "../errors.js";
import { asError } from "../status.js";
import { ERROR_TYPE, RPC_METHOD, RPC_STATUS, RPC_SYSTEM, SCOPE } from "./names.js";

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MAX_STATUS = 1024;

/** Returns the OpenTelemetry context below a span of another process; the root if the header is not valid. */
export function remoteContext({ traceparent, tracestate }: TraceContext): Context {
  const root = otelTrace.deleteSpan(otelContext.active());
  const match = FORM.exec(traceparent.trim());
  if (match === null) return root;
  const [, version, traceId = "", spanId = "", flags = "", rest] = match;
  const isVoid = /^0+$/.test(traceId) || /^0+$/.test(spanId);
  if (version === "ff" || (version === "00" && rest !== undefined) || isVoid) return root;
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const traceState = tracestate ? createTraceState(tracestate) : undefined;
  return otelTrace.setSpanContext(root, { traceId, spanId, traceFlags, isRemote: true, ...(traceState && { traceState }) });
}

/** Starts a span that serves a task or a call, below a place in a trace; `within` is the context for the work. */
export function startServing(name: string, parent: TraceContext, attributes: Attributes): { span: Span; within: Context } {
  const above = remoteContext(parent);
  const span = otelTrace.getTracer(SCOPE).startSpan(name, { kind: SpanKind.SERVER, attributes }, above);
  return { span, within: otelTrace.setSpan(above, span) };
}

/** Marks a span as failed. */
export function failSpan(span: Span, errorType: string, message: string): void {
  span.setAttribute(ERROR_TYPE, errorType);
  span.setStatus({ code: SpanStatusCode.ERROR, message: message.slice(0, MAX_STATUS) });
}

/** Makes a unary call within a span, if it belongs to a trace that is recorded: polls would drown the traces of runs. */
export async function rpcSpan<T>(path: string, call: () => Promise<T>): Promise<T> {
  const active = otelContext.active();
  const own = otelTrace.getSpanContext(active);
  const isInside = own !== undefined && otelTrace.isSpanContextValid(own);
  const parent = isInside ? active : remoteContext(current());
  const above = otelTrace.getSpanContext(parent);
  if (above === undefined || (above.traceFlags & TraceFlags.SAMPLED) === 0) return call();
  const name = path.slice(1);
  const attributes = { [RPC_SYSTEM]: "grpc", [RPC_METHOD]: name };
  const span = otelTrace.getTracer(SCOPE).startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent);
  let error: ArchonError | undefined;
  try {
    return await otelContext.with(otelTrace.setSpan(parent, span), call);
  } catch (raised) {
    error = asError(raised);
    throw raised;
  } finally {
    span.setAttribute(RPC_STATUS, error?.code ?? "OK");
    if (error !== undefined) failSpan(span, error.reason, error.message);
    span.end();
  }
}
