/** Unary calls by the Connect protocol in JSON (https://connectrpc.com/docs/protocol), with the session of this browser. */
import { create, fromJson, toJson, type Json } from "./messages.js";

const TIMEOUT_MS = 30_000;

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
}

/** A call that the gateway or the mesh has refused. */
export class CallError extends Error {
  /** `code` is as in the protocol, such as `not_found`. */
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Codes of answers without a body of the protocol, such as those of a proxy: https://connectrpc.com/docs/protocol#http-to-error-code. */
const CODES: Readonly<Record<number, string>> = { 400: "internal", 401: "unauthenticated", 403: "permission_denied", 404: "unimplemented", 429: "unavailable", 502: "unavailable", 503: "unavailable", 504: "unavailable" };

/** Calls an RPC. Throws a CallError. */
export async function call(service: string, method: string, init: object, { headers = {} }: CallOptions = {}): Promise<unknown> {
  const name = method.slice(0, 1).toUpperCase() + method.slice(1);
  const schemaOf = (kind: string): { typeName: string } => ({ typeName: `${service.replace(/\w+$/, name)}${kind}` });
  const request = schemaOf("Request");
  const body = JSON.stringify(toJson(request, create(request, init)));
  const sent = { "content-type": "application/json", "connect-protocol-version": "1", "connect-timeout-ms": String(TIMEOUT_MS), ...headers };
  return fromJson(schemaOf("Response"), await send(`/${service}/${name}`, { method: "POST", headers: sent, body }));
}

/** Sends a request to the gateway and returns the JSON of its answer. Throws a CallError. */
export async function send(path: string, init: RequestInit = {}): Promise<Json> {
  let answer: Json | undefined;
  let response: Response;
  try {
    response = await fetch(path, { redirect: "error", signal: AbortSignal.timeout(TIMEOUT_MS), ...init });
    answer = await read(response);
  } catch (thrown) {
    throw thrown instanceof DOMException && thrown.name === "TimeoutError"
      ? new CallError("deadline_exceeded", "The mesh has not answered in time.")
      : new CallError("unavailable", "The gateway cannot be reached.");
  }
  if (!response.ok || answer === undefined) {
    const { code, message } = Object(answer) as { code?: string; message?: string };
    throw new CallError(code ?? CODES[response.status] ?? "unknown", message || `The gateway has answered with HTTP status ${response.status}.`);
  }
  return answer;
}

/** Returns the JSON of an answer; undefined if it has another form. Throws if the connection or the time ends. */
async function read(response: Response): Promise<Json | undefined> {
  const text = await response.text();
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
