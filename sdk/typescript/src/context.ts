/** The context of a call, which travels with every hop: deadline, identity, trace, run and task. */
import { context as otelContext, trace as otelTrace } from "@opentelemetry/api";
import { AsyncLocalStorage } from "node:async_hooks";
import { DEFAULT_TENANT, type Principal } from "./principal.js";

export const ANONYMOUS = "anonymous";

/** The call being served, or the attempt that an agent works on. */
export interface CallContext {
  /** On the clock of `now()`, in milliseconds; undefined if there is no deadline. */
  readonly deadline?: number | undefined;
  readonly tenant: string;
  readonly identity: string;
  readonly traceparent: string;
  readonly tracestate: string;
  readonly runId: string;
  readonly taskId: string;
  readonly attempt: number;
  readonly role: string;
  /** The caller that has presented its credentials. */
  readonly principal?: Principal | undefined;
}

/** No call, and no task. */
export const NONE: CallContext = {
  tenant: DEFAULT_TENANT,
  identity: ANONYMOUS,
  traceparent: "",
  tracestate: "",
  runId: "",
  taskId: "",
  attempt: 0,
  role: "",
};

const storage = new AsyncLocalStorage<CallContext>();

/** Milliseconds on the monotonic clock of this process. */
export function now(): number {
  return performance.now();
}

/** Returns the call being served, or an empty context outside of a call. */
export function current(): CallContext {
  return storage.getStore() ?? NONE;
}

/** Calls a function within a context; it holds for all that the function starts. */
export function serving<T>(call: Partial<CallContext>, work: () => T): T {
  return storage.run({ ...NONE, ...call }, work);
}

/** Calls a function within a context whose properties may change while it works. */
export function servingLive<T>(call: CallContext, work: () => T): T {
  return storage.run(call, work);
}

/** Calls a function outside of any context, for work that outlives the call that has started it. */
export function outsideOfCalls<T>(work: () => T): T {
  return storage.exit(work);
}

/** Returns the milliseconds that are left for the call being served; undefined if there is no deadline. */
export function remainingMs(): number | undefined {
  const { deadline } = current();
  return deadline === undefined ? undefined : Math.max(0, deadline - now());
}

/** Limits all calls that a function makes to `ms` from now. Never extends an earlier deadline. */
export function withDeadline<T>(ms: number, work: () => T): T {
  const call = current();
  const end = now() + ms;
  return serving({ ...call, deadline: call.deadline === undefined ? end : Math.min(end, call.deadline) }, work);
}

/** Calls a function whose calls continue a trace (W3C Trace Context), in a process without spans of OpenTelemetry. */
export function withTrace<T>(traceparent: string, work: () => T, tracestate = ""): T {
  return serving({ ...current(), traceparent, tracestate }, work);
}

/** The W3C values of a place in a trace. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate: string;
}

/** Returns the trace of calls made now: of the current OpenTelemetry span, or else of the call being served. */
export function currentTrace(): TraceContext {
  const span = otelTrace.getSpanContext(otelContext.active());
  if (span !== undefined && otelTrace.isSpanContextValid(span)) {
    const flags = span.traceFlags.toString(16).padStart(2, "0");
    const traceparent = `00-${span.traceId}-${span.spanId}-${flags}`;
    return { traceparent, tracestate: span.traceState?.serialize() ?? "" };
  }
  const { traceparent, tracestate } = current();
  return { traceparent, tracestate };
}
