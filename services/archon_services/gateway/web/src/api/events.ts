/** Server-sent events of the gateway, decoded. A browser connects again by itself, after the last event that it has. */
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { RunEventSchema, type RunEvent } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { WatchResponseSchema, type WatchResponse } from "@api/archon/api/registry/v1/registry_service_pb.js";

export interface Watcher<T> {
  /** Is called with each event, in order. */
  event(value: T): void;
  /** Is called when the connection is lost, and with `true` when it is there again. */
  connected?(yes: boolean): void;
  /** Is called when nothing more will come. */
  end?(): void;
  /** Is called with an error that ends the stream, as one sentence. */
  failure?(message: string): void;
}

/** Watches a run: all its durable events from the first one after `after`, then those that come. Returns a function that ends it. */
export function watchRun(runId: string, watcher: Watcher<RunEvent>, after = 0): () => void {
  const query = after > 0 ? `?after=${after}` : "";
  return watch(`/events/runs/${encodeURIComponent(runId)}${query}`, (json) => fromJson(RunEventSchema, json, { ignoreUnknownFields: true }), watcher);
}

/** Watches the registry: a snapshot, then each change. Returns a function that ends it. */
export function watchRegistry(watcher: Watcher<WatchResponse>): () => void {
  return watch("/events/registry", (json) => fromJson(WatchResponseSchema, json, { ignoreUnknownFields: true }), watcher);
}

function watch<T>(path: string, decode: (json: JsonValue) => T, watcher: Watcher<T>): () => void {
  const source = new EventSource(path);
  const close = (): void => source.close();
  source.onopen = () => watcher.connected?.(true);
  source.onmessage = (message: MessageEvent<string>) => watcher.event(decode(JSON.parse(message.data) as JsonValue));
  source.addEventListener("end", () => {
    close();
    watcher.end?.();
  });
  source.addEventListener("failure", (message) => {
    close();
    watcher.failure?.(failureText((message as MessageEvent<string>).data));
  });
  source.onerror = () => {
    watcher.connected?.(false);
    if (source.readyState === EventSource.CLOSED) watcher.end?.(); // 204: the run has ended and nothing is missing
  };
  return close;
}

function failureText(data: string): string {
  try {
    return (JSON.parse(data) as { message?: string }).message ?? data;
  } catch {
    return data;
  }
}
