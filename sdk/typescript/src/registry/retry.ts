/** Which errors are transient, and how long to wait before trying again. */
import { abortError, onAbort } from "../channel.js";
import type { ArchonError, Code } from "../errors.js";

const TRANSIENT_CODES: readonly Code[] = [
  "UNAVAILABLE",
  "DEADLINE_EXCEEDED",
  "RESOURCE_EXHAUSTED",
  "ABORTED",
  "INTERNAL",
  "UNKNOWN",
  "CANCELLED",
];
const TRANSIENT_REASONS = ["LEASE_EXPIRED", "TOKEN_EXPIRED", "CERTIFICATE_REFUSED"];

/** Whether trying again may help. */
export function isTransient(error: ArchonError): boolean {
  return TRANSIENT_CODES.includes(error.code) || TRANSIENT_REASONS.includes(error.reason);
}

/** Returns the milliseconds to wait after an attempt (from 0): exponential with jitter, at most `longest`. */
export function backoff(attempt: number, error?: ArchonError, longest = 2_000): number {
  const asked = Math.min(longest, error?.retryDelayMs ?? 0);
  return Math.max(asked, Math.min(longest, 100 * 2 ** Math.min(attempt, 10))) * (0.5 + Math.random() / 2);
}

/** Resolves after a time. Throws the error of the signal if that is aborted before. */
export function pause(ms: number, signal?: AbortSignal, { ref = true } = {}): Promise<void> {
  return new Promise((resolve, reject) => {
    let release = (): void => undefined;
    const timer = setTimeout(() => {
      release();
      resolve();
    }, ms);
    if (!ref) timer.unref();
    release = onAbort(signal, () => {
      clearTimeout(timer);
      reject(abortError(signal as AbortSignal));
    });
  });
}
