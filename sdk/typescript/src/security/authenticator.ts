/** Verifies who calls an agent, and whether it may. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { ANONYMOUS } from "../context.js";
import { ArchonError, FailedPrecondition, PermissionDenied, Unauthenticated, Unavailable } from "../errors.js";
import { log } from "../log.js";
import { DEFAULT_TENANT, identityOf, isOfAllTenants, type CallerKind, type Principal } from "../principal.js";
import { memberOf, ownFolder, refused, type CertificateFolder } from "./certificates.js";
import { hasOwnToken, IDENTITY_KEY, TENANT_KEY } from "./credentials.js";
import { ServingFolder } from "./meshFolder.js";
import { parseKeySet, verifyToken, type KeySet } from "./tokens.js";

const MAX_VERIFIED = 4_096;
const REFUSALS_LOGGED = 10;
const HEALTH = "/grpc.health.v1.Health/";
const REFLECTION = "/grpc.reflection.";

const SERVICES: CallerKind[] = ["service"];
const ADMINS: CallerKind[] = [...SERVICES, "admin"];
const MEMBERS: CallerKind[] = [...ADMINS, "agent"];
const TOOL_USERS: CallerKind[] = [...MEMBERS, "operator"];
const EVERYBODY: CallerKind[] = [...TOOL_USERS, "viewer", "auditor"];

/** The kinds of callers that may call each RPC of an agent; whatever is not here is refused. */
const POLICY: Readonly<Record<string, readonly CallerKind[]>> = {
  "/archon.api.agent.v1.AgentService/Describe": EVERYBODY,
  "/archon.api.agent.v1.AgentService/RunTask": ADMINS,
  "/archon.api.agent.v1.AgentService/Session": SERVICES,
  "/archon.api.agent.v1.AgentService/Deliver": MEMBERS,
  "/archon.api.tool.v1.ToolService/ListTools": EVERYBODY,
  "/archon.api.tool.v1.ToolService/LeaseTool": TOOL_USERS,
  "/archon.api.tool.v1.ToolService/ExecuteTool": TOOL_USERS,
  "/archon.api.tool.v1.ToolService/RevokeLease": TOOL_USERS,
};

/** Who makes a call, on behalf of `identity` in `tenant`. */
export interface Caller {
  readonly tenant: string;
  readonly identity: string;
  readonly principal?: Principal | undefined;
}

const NOBODY: Caller = { tenant: DEFAULT_TENANT, identity: ANONYMOUS };

/** The keys of an agent: of ARCHON_KEYS, of the folder of its mesh on this machine, else from the registry. */
export class LearntKeys {
  readonly #folder: ServingFolder | undefined;
  readonly #path = process.env["ARCHON_KEYS"] ?? "";
  #read: { path: string; stamp: string; keys: KeySet; at: number } | undefined;
  #told: KeySet | undefined;
  #tenant = "";

  constructor(readonly registry: string) {
    this.#folder = registry ? new ServingFolder(registry) : undefined;
    if (this.#path) this.#file(this.#path);
    if (process.env["ARCHON_POLICY"]) {
      log("warning", "ARCHON_POLICY is not used by agents in TypeScript: the built-in policy holds");
    }
  }

  /** Takes in the answer of the registry: a key set as JSON, empty if it has none, and the agent's tenant. */
  tell(keysJson: string, tenant: string): void {
    this.#tenant = tenant || DEFAULT_TENANT;
    if (!keysJson) return;
    try {
      this.#told = parseKeySet(keysJson);
    } catch (error) {
      log("warning", `the keys that the registry has sent are not used: ${(error as Error).message}`);
    }
  }

  /** The tenant of the agent; empty before the first answer. */
  get tenant(): string {
    return this.#tenant;
  }

  /** Returns the keys; undefined if the mesh has none. Throws Unavailable if they are not known yet. */
  read(): KeySet | undefined {
    if (this.#path) return this.#file(this.#path);
    const found = this.#folder?.find();
    if (found !== undefined && existsSync(found.keysFile)) return this.#file(found.keysFile);
    if (this.#told === undefined && this.registry && hasOwnToken()) {
      throw new Unavailable("this agent has not registered yet", { retryDelayMs: 1000 });
    }
    return this.#told;
  }

  #file(path: string): KeySet {
    const known = this.#read;
    if (known !== undefined && known.path === path && performance.now() - known.at < 1000) return known.keys;
    try {
      const entry = statSync(path);
      const stamp = `${entry.mtimeMs}/${entry.size}/${entry.ino}`;
      const isSame = known !== undefined && known.stamp === stamp && known.path === path;
      const keys = isSame ? known.keys : parseKeySet(readFileSync(path, "utf8"));
      this.#read = { path, stamp, keys, at: performance.now() };
      return keys;
    } catch (error) {
      if (known !== undefined && known.path === path) return known.keys;
      throw new FailedPrecondition(`cannot use the file of public keys ${path}: ${(error as Error).message}`);
    }
  }
}

/** Lets callers in by their token, or without one by the certificate of their connection. */
export class Authenticator {
  readonly #certificate: CertificateFolder | undefined = ownFolder();
  readonly #verified = new Map<string, Principal>();
  #by: KeySet | undefined;
  #minute = Number.NEGATIVE_INFINITY;
  #refusals = 0;

  constructor(readonly keys: LearntKeys) {}

  /** Returns the caller. Throws Unauthenticated, PermissionDenied, and Unavailable if the keys are not known yet. */
  caller(method: string, metadata: (key: string) => string, certificate: () => Buffer | undefined): Caller {
    if (method.startsWith(HEALTH)) return NOBODY;
    try {
      const keys = this.#current();
      const authorization = metadata("authorization");
      let principal: Principal;
      if (this.#certificate !== undefined && (keys === undefined || !authorization)) {
        principal = memberOf(certificate() ?? Buffer.alloc(0), this.#certificate.read().identity.mesh);
        if (Date.now() >= principal.expires) throw refused("the certificate of the connection has expired");
      } else if (keys === undefined) {
        return NOBODY;
      } else {
        principal = this.#verify(authorization, keys);
      }
      checkAllowed(method, principal);
      this.#checkTenant(principal);
      return onBehalf(principal, metadata(TENANT_KEY), metadata(IDENTITY_KEY));
    } catch (error) {
      this.#note(method, error);
      throw error;
    }
  }

  /** Throws if the credentials of a call in progress are not valid any more. */
  check(principal: Principal): void {
    if (this.#current()?.revoked.has(principal.tokenId)) {
      throw new Unauthenticated("the token of this call was revoked", { reason: "TOKEN_REVOKED" });
    }
    if (Date.now() < principal.expires) return;
    if (!principal.tokenId) throw refused("the certificate of this call has expired");
    throw new Unauthenticated("the token of this call has expired", { reason: "TOKEN_EXPIRED" });
  }

  #current(): KeySet | undefined {
    let keys: KeySet | undefined;
    try {
      keys = this.keys.read();
    } catch (error) {
      if (error instanceof FailedPrecondition) throw new Unavailable(`no call can be let in: ${error.message}`);
      throw error;
    }
    if (keys !== this.#by) this.#verified.clear(); // another key, or a token was revoked
    this.#by = keys;
    return keys;
  }

  #verify(authorization: string, keys: KeySet): Principal {
    const token = /^bearer /i.test(authorization) ? authorization.slice(7).trim() : "";
    if (!token) {
      throw new Unauthenticated(
        `this member of the mesh ${keys.issuer} needs a token: \`archon token\`, in the folder of the mesh, prints one; set ` +
          'ARCHON_TOKEN to it, or the metadata "authorization" to "Bearer TOKEN"',
        { reason: "TOKEN_MISSING" },
      );
    }
    let principal = this.#verified.get(token);
    if (principal === undefined) {
      principal = verifyToken(token, keys, "agents");
      if (this.#verified.size >= MAX_VERIFIED) this.#verified.clear();
      this.#verified.set(token, principal);
    }
    if (Date.now() >= principal.expires) throw new Unauthenticated("the token has expired", { reason: "TOKEN_EXPIRED" });
    return principal;
  }

  #checkTenant(principal: Principal): void {
    if (!this.keys.registry || isOfAllTenants(principal)) return;
    const { tenant } = this.keys;
    if (!tenant) throw new Unavailable("this agent has not registered yet", { retryDelayMs: 1000 });
    if (principal.tenant === tenant) return;
    throw denied(`${identityOf(principal)} is of another tenant than this agent`, principal);
  }

  /** Logs a few refused calls in each minute, and the number of the others. */
  #note(method: string, error: unknown): void {
    const time = performance.now();
    if (time >= this.#minute) {
      if (this.#refusals > REFUSALS_LOGGED) log("warning", `refused ${this.#refusals - REFUSALS_LOGGED} further calls`);
      [this.#minute, this.#refusals] = [time + 60_000, 0];
    }
    this.#refusals += 1;
    if (this.#refusals > REFUSALS_LOGGED) return;
    const why = error instanceof ArchonError ? error.message : "internal error";
    log("warning", `refused a call of ${method.slice(method.lastIndexOf("/") + 1)}: ${why}`);
  }
}

function denied(message: string, principal: Principal): PermissionDenied {
  return new PermissionDenied(message, { metadata: { identity: identityOf(principal), kind: principal.kind } });
}

function checkAllowed(method: string, principal: Principal): void {
  if (method.startsWith(REFLECTION)) return;
  const kinds = Object.hasOwn(POLICY, method) ? POLICY[method] : undefined;
  if (kinds?.includes(principal.kind)) return;
  const allowed = [...(kinds ?? [])].sort().join(", ") || "none";
  const name = method.slice(method.lastIndexOf("/") + 1);
  throw denied(
    `${identityOf(principal)} is of kind ${principal.kind} and may not call ${name}; kinds that may: ${allowed}`,
    principal,
  );
}

function onBehalf(principal: Principal, givenTenant: string, givenName: string): Caller {
  const own = identityOf(principal);
  const mayAct = principal.kind === "admin" || principal.kind === "service";
  const tenant = mayAct && givenTenant ? givenTenant : principal.tenant;
  const name = givenName || own;
  if (principal.kind === "agent" || (name === own && tenant === principal.tenant)) {
    return { tenant: principal.tenant, identity: own, principal };
  }
  if (tenant !== principal.tenant && !isOfAllTenants(principal)) {
    throw denied(`${own} of the tenant ${principal.tenant} may not call in another tenant`, principal);
  }
  if (!mayAct) throw denied(`${own} is of kind ${principal.kind} and may not call as '${name}'`, principal);
  return { tenant, identity: name, principal };
}
