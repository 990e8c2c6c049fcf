/** How the calls of a shared tool have ended, as its owner advertises it. */
import type { ToolShare } from "../../registry/registration.js";

/** Calls whose durations are remembered. */
const RECENT = 100;

/** Differences from which on the figures are advertised anew. */
const RATE_STEP = 0.05;
const LATENCY_STEP = 0.25;
const LEAST_LATENCY_STEP_MS = 10;

/** Counts the calls of one tool that other agents have made. */
export class ToolFigures {
  #calls = 0;
  #succeeded = 0;
  readonly #durations: number[] = [];

  /** Counts a call. */
  count(durationMs: number, ok: boolean): void {
    this.#calls += 1;
    if (ok) this.#succeeded += 1;
    this.#durations.push(durationMs);
    if (this.#durations.length > RECENT) this.#durations.shift();
  }

  /** Returns the figures with the terms of the tool. */
  share(maxCallsPerMinute: number): ToolShare {
    const sum = this.#durations.reduce((total, each) => total + each, 0);
    return {
      maxCallsPerMinute,
      calls: this.#calls,
      successRate: this.#calls > 0 ? Math.round((this.#succeeded / this.#calls) * 1e4) / 1e4 : 0,
      meanLatencyMs: this.#durations.length > 0 ? Math.round((sum / this.#durations.length) * 1e3) / 1e3 : 0,
    };
  }
}

/** Whether the figures have changed so much that callers would choose differently. */
export function differsNotably(advertised: ToolShare | undefined, current: ToolShare | undefined): boolean {
  if (advertised === undefined || current === undefined) return advertised !== current;
  if (advertised.maxCallsPerMinute !== current.maxCallsPerMinute) return true;
  if (current.calls < 1 || advertised.calls === current.calls) return false;
  if (current.calls >= 4 * Math.max(1, advertised.calls) || advertised.calls === 0) return true;
  if (Math.abs(advertised.successRate - current.successRate) >= RATE_STEP) return true;
  const step = Math.abs(advertised.meanLatencyMs - current.meanLatencyMs);
  return step >= LEAST_LATENCY_STEP_MS && step >= LATENCY_STEP * advertised.meanLatencyMs;
}
