/** The log of the SDK: lines on standard error, unless the program sets a logger of its own. */

export type LogLevel = "debug" | "info" | "warning" | "error";

/** Takes the lines of the SDK; `detail` is an error, or fields about the line. */
export type Logger = (level: LogLevel, message: string, detail?: unknown) => void;

const LEVELS: readonly LogLevel[] = ["debug", "info", "warning", "error"];

function toStandardError(level: LogLevel, message: string, detail?: unknown): void {
  const wanted = LEVELS.indexOf((process.env["ARCHON_LOG_LEVEL"] ?? "").toLowerCase() as LogLevel);
  if (LEVELS.indexOf(level) < (wanted < 0 ? LEVELS.indexOf("info") : wanted)) return;
  const shown = detail instanceof Error ? `\n${detail.stack ?? detail.message}` : "";
  if (process.env["ARCHON_LOG_FORMAT"] === "json") {
    const error = detail instanceof Error ? { error: detail.message, stack: detail.stack } : undefined;
    process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...error })}\n`);
    return;
  }
  process.stderr.write(`${new Date().toISOString()} ${level.toUpperCase()} ${message}${shown}\n`);
}

let current: Logger = toStandardError;

/** Sets the logger of this process; without an argument the lines go to standard error again. */
export function setLogger(logger: Logger = toStandardError): void {
  current = logger;
}

/** Logs a line. Never throws: a logger that fails must not affect a task. */
export function log(level: LogLevel, message: string, detail?: unknown): void {
  try {
    current(level, message, detail);
  } catch {
    // nothing to tell it to
  }
}
