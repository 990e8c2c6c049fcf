/** Server-sent events of the gateway, decoded. A browser connects again by itself, after the last event that it has. */
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { RunEventSchema, type RunEvent } from "@api/archon/api/orchestrator/v1/run_pb.js";
import { WatchResponseSchema, type WatchResponse } from "@api/archon/api/registry/v1/registry_service_pb.js";
import { session } from "../shell/session.svelte.js";

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
  return watchEvents(`/events/runs/${encodeURIComponent(runId)}${query}`, watcher);
}

/** Watches the events of a run at a path, such as that of a link. Returns a function that ends it. */
export function watchEvents(path: string, watcher: Watcher<RunEvent>): () => void {
  return watch(path, (json) => fromJson(RunEventSchema, json, { ignoreUnknownFields: true }), watcher);
}

/** Watches the registry: a snapshot, then each change. Returns a function that ends it. */
export function watchRegistry(watcher: Watcher<WatchResponse>): () => void {
  return watch("/events/registry", (json) => fromJson(WatchResponseSchema, json, { ignoreUnknownFields: true }), watcher);
}

const RETRY_MS = 2_000;
const SLOWEST_RETRY_MS = 30_000;

/**
 * A browser connects again by itself if a connection is lost, after the last event that it has; not if it is refused, as by a
 * gateway that starts again. Then the answer says whether there is more, and another stream begins.
 */
function watch<T>(path: string, decode: (json: JsonValue) => T, watcher: Watcher<T>): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let [last, delay, closed] = ["", RETRY_MS, false];
  const close = (): void => {
    closed = true;
    source?.close();
    clearTimeout(timer);
  };
  const here = (): string => (last === "" ? path : `${path.split("?")[0]}?after=${last}`);
  const refused = async (): Promise<void> => {
    const status = session.expired ? 401 : await statusOf(here());
    if (closed) return;
    if (status === 200) open();
    else if (status === 204) end();
    else if (status === 401 && session.value !== null) {
      session.ended();
      delay = RETRY_MS;
      again(); // and asks nothing until the reader has logged in again
    } else if (status >= 400 && status < 500 && status !== 429) {
      close();
      watcher.failure?.(`The gateway refuses the events (${status}).`);
    } else again();
  };
  const again = (): void => {
    timer = setTimeout(() => void refused(), delay);
    delay = Math.min(delay * 2, SLOWEST_RETRY_MS);
  };
  const end = (): void => {
    close();
    watcher.end?.();
  };
  const open = (): void => {
    source = new EventSource(here());
    source.onopen = () => {
      delay = RETRY_MS;
      watcher.connected?.(true);
    };
    source.onmessage = (message: MessageEvent<string>) => {
      last = message.lastEventId || last;
      watcher.event(decode(JSON.parse(message.data) as JsonValue));
    };
    source.addEventListener("end", end);
    source.addEventListener("failure", (message) => {
      close();
      watcher.failure?.(failureText((message as MessageEvent<string>).data));
    });
    source.onerror = () => {
      if (closed) return;
      watcher.connected?.(false);
      if (source?.readyState === EventSource.CLOSED) void refused();
    };
  };
  open();
  return close;
}

/** Returns the status of an answer, without its body; 0 if there is none. */
async function statusOf(path: string): Promise<number> {
  const abort = new AbortController();
  try {
    return (await fetch(path, { signal: abort.signal })).status;
  } catch {
    return 0;
  } finally {
    abort.abort();
  }
}

function failureText(data: string): string {
  try {
    return (JSON.parse(data) as { message?: string }).message ?? data;
  } catch {
    return data;
  }
}
