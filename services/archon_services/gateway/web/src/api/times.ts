/** Durations and times of messages, and their texts in JSON: `1.5s` and `2026-01-02T03:04:05.006Z`. */
export interface Span {
  readonly seconds: bigint;
  /** 0 to 999,999,999; below 0 in a negative duration. */
  readonly nanos: number;
}

/** Throws an Error if the text is no duration. */
export function durationOf(text: string): Span {
  const found = /^(-?)(\d+)(?:\.(\d{1,9}))?s$/.exec(text);
  if (!found) throw new Error(`${text.slice(0, 100)} is no duration`);
  const sign = found[1] === "-" ? -1 : 1;
  return { seconds: BigInt(found[2] ?? 0) * BigInt(sign), nanos: nanosOf(found[3]) * sign || 0 };
}

/** Throws an Error if the text is no time. */
export function timeOf(text: string): Span {
  const found = /^([^.]+?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  const at = found ? Date.parse(`${found[1]}${found[3]}`) : NaN;
  if (!found || Number.isNaN(at)) throw new Error(`${text.slice(0, 100)} is no time`);
  return { seconds: BigInt(at / 1_000), nanos: nanosOf(found[2]) };
}

export function durationText({ seconds, nanos }: Span): string {
  const sign = seconds < 0n || nanos < 0 ? "-" : "";
  return `${sign}${seconds < 0n ? -seconds : seconds}${fraction(Math.abs(nanos))}s`;
}

export function timeText({ seconds, nanos }: Span): string {
  return `${new Date(Number(seconds) * 1_000).toISOString().slice(0, -5)}${fraction(nanos)}Z`;
}

function nanosOf(digits = ""): number {
  return Number(digits.padEnd(9, "0"));
}

/** Returns nanoseconds in 3, 6 or 9 digits, as in the JSON of other languages. */
function fraction(nanos: number): string {
  return nanos === 0 ? "" : `.${String(nanos).padStart(9, "0").replace(/^(...)(?:000000$|(...)000$)/, "$1$2")}`;
}
