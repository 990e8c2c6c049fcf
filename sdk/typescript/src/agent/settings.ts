/** Settings of an agent process. */
import { InvalidArgument } from "../errors.js";
import { hasPort, loopbackHost, withPort } from "../loopback.js";

export const DRAIN_GRACE_MS = 30_000;

/** Settings that depend on where the agent runs. */
export interface AgentSettings {
  readonly host: string;
  readonly port: number;
  /** host:port of the registry; empty: it serves unregistered. */
  readonly registry: string;
  /** host or host:port as others dial it. */
  readonly advertise: string;
  /** Replaces the role's own dependencies unless it is undefined. */
  readonly dependsOn?: readonly string[] | undefined;
  /** Replaces the role's own unless it is 0. */
  readonly maxTasks: number;
  /** The lease of the registration. */
  readonly ttlMs: number;
  /** How long tasks in progress may take after SIGTERM. */
  readonly drainMs: number;
  /** host:port of the memory service of `task.shared`. */
  readonly memory: string;
  /** Gets the address once the agent serves. */
  readonly readyFile: string;
  /** host:port of an orchestrator to attach to, in place of serving; empty: it serves. */
  readonly attach: string;
  /** host:port of an orchestrator to attach to if none can dial the agent; empty: it never attaches by itself. */
  readonly orchestrator: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the settings of the environment: ARCHON_HOST, ARCHON_PORT, ARCHON_REGISTRY, ARCHON_ADVERTISE, ARCHON_DEPENDS_ON (roles,
 * comma separated), ARCHON_MAX_TASKS, ARCHON_TTL and ARCHON_DRAIN (seconds), ARCHON_MEMORY, ARCHON_READY_FILE, ARCHON_ATTACH,
 * ARCHON_ORCHESTRATOR. Throws InvalidArgument with the name of the variable.
 */
export function settingsFromEnvironment(env: Environment = process.env): AgentSettings {
  const dependsOn = env["ARCHON_DEPENDS_ON"];
  return {
    host: env["ARCHON_HOST"] || loopbackHost(),
    port: whole(env, "ARCHON_PORT", 0, 65_535),
    registry: target(env, "ARCHON_REGISTRY"),
    advertise: env["ARCHON_ADVERTISE"] ?? "",
    dependsOn: dependsOn?.split(",").flatMap((role) => role.trim() || []),
    maxTasks: whole(env, "ARCHON_MAX_TASKS", 0, 100_000),
    ttlMs: number(env, "ARCHON_TTL", 10, 1, 3600) * 1000,
    drainMs: number(env, "ARCHON_DRAIN", DRAIN_GRACE_MS / 1000, 0, 3600) * 1000,
    memory: target(env, "ARCHON_MEMORY"),
    readyFile: env["ARCHON_READY_FILE"] ?? "",
    attach: target(env, "ARCHON_ATTACH"),
    orchestrator: target(env, "ARCHON_ORCHESTRATOR"),
  };
}

/** Returns host:port as others dial an agent that listens on a port. */
export function advertised(settings: AgentSettings, port: number): string {
  if (!settings.advertise) return withPort(settings.host, port);
  return hasPort(settings.advertise) ? settings.advertise : withPort(settings.advertise, port);
}

function target(env: Environment, name: string): string {
  const text = env[name] ?? "";
  if (!text || text.includes(":")) return text; // or a gRPC name with several addresses
  throw new InvalidArgument(`environment variable ${name} is '${text}': not host:port`);
}

function whole(env: Environment, name: string, least: number, most: number): number {
  if (env[name]?.startsWith("tcp://")) return 0; // set by Kubernetes for a Service named archon
  const value = number(env, name, 0, least, most);
  if (Number.isInteger(value)) return value;
  throw new InvalidArgument(`environment variable ${name} is '${env[name] ?? ""}': not a whole number`);
}

function number(env: Environment, name: string, fallback: number, least: number, most: number): number {
  const text = env[name] ?? "";
  if (!text) return fallback;
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (!Number.isFinite(value)) throw new InvalidArgument(`environment variable ${name} is '${text}': not a number`);
  if (value < least || value > most) {
    throw new InvalidArgument(`environment variable ${name} is '${text}': must be ${least} to ${most}`);
  }
  return value;
}
