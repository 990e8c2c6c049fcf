/**
 * The tokens that this process presents: from ARCHON_TOKEN or ARCHON_TOKEN_FILE, else from the folder of the mesh on this
 * machine that has a service at the address of the call.
 */
import { readFileSync, statSync } from "node:fs";
import { ANONYMOUS, current } from "../context.js";
import { Unauthenticated } from "../errors.js";
import { log } from "../log.js";
import { hostOf, isLoopback } from "../loopback.js";
import { DEFAULT_TENANT, mayActForOthers } from "../principal.js";
import { CertificateFolder, ownFolder } from "./certificates.js";
import { candidates, ServingFolder } from "./meshFolder.js";
import type { Audience } from "./peer.js";
import { claimsOf } from "./tokens.js";

export const TENANT_KEY = "archon-tenant";
export const IDENTITY_KEY = "archon-identity";

/** Milliseconds between two looks at a file: its token was renewed if it has changed. */
const INTERVAL = 1000;

/** The source of the credentials of a channel's calls. */
export interface CallCredentials {
  /** Returns the metadata of a call made now: a token, and on whose behalf it is made. */
  metadata(): [string, string][];
}

interface Token {
  readonly header: string;
  readonly mayActForOthers: boolean;
}

type Tokens = Partial<Record<Audience, Token>>;

/** Presents nothing. */
export const NO_CREDENTIALS: CallCredentials = { metadata: () => [] };

/** Returns the tokens of a text, separated by commas or white space, by audience. Throws Unauthenticated / TOKEN_INVALID. */
function tokensIn(text: string): Tokens {
  const tokens: Tokens = {};
  for (const token of text.split(/[\s,]+/).filter(Boolean)) {
    const claims = claimsOf(token);
    const audience = claims["aud"] === "agents" ? "agents" : "services";
    tokens[audience] = { header: `Bearer ${token}`, mayActForOthers: mayActForOthers(claims["kind"]) };
  }
  return tokens;
}

/** Returns on whose behalf a call is made now: the identity and the tenant of the call being served. */
function onBehalf(): [string, string][] {
  const { identity, tenant } = current();
  if (identity !== ANONYMOUS) {
    return [
      [TENANT_KEY, tenant],
      [IDENTITY_KEY, identity],
    ];
  }
  return tenant === DEFAULT_TENANT ? [] : [[TENANT_KEY, tenant]];
}

function presented(token: Token | undefined): [string, string][] {
  if (token === undefined) return [];
  const own: [string, string][] = [["authorization", token.header]];
  return token.mayActForOthers ? [...own, ...onBehalf()] : own;
}

/** A file of tokens, one for each audience, which is read again when it has changed. */
class TokenFile {
  #checked = -INTERVAL;
  #stamp = "";
  #isMissing = false;
  #tokens: Tokens = {};

  constructor(readonly path: string) {}

  read(): Tokens {
    const time = performance.now();
    if (time - this.#checked < INTERVAL) return this.#tokens;
    this.#checked = time;
    let text: string;
    let stamp: string;
    try {
      const entry = statSync(this.path);
      stamp = `${entry.mtimeMs}/${entry.size}/${entry.ino}`;
      if (stamp === this.#stamp) return this.#tokens;
      text = readFileSync(this.path, "utf8");
    } catch (error) {
      if (!this.#stamp && !this.#isMissing) {
        const { code } = error as { code?: string };
        log("warning", `${this.path} cannot be read (${code ?? "unknown"}), so no token is presented`);
      }
      this.#isMissing = true;
      return this.#tokens; // the last ones, as while it is being replaced
    }
    try {
      this.#tokens = tokensIn(text);
      this.#stamp = stamp;
    } catch {
      throw new Unauthenticated(`${this.path} has no token: it is not a JSON Web Token`, { reason: "TOKEN_INVALID" });
    }
    return this.#tokens;
  }
}

/** Presents a token that the program has, instead of the one that is found. Throws Unauthenticated / TOKEN_INVALID. */
export function tokenCredentials(text: string, audience: Audience = "services"): CallCredentials {
  const tokens = tokensIn(text);
  return { metadata: () => presented(tokens[audience]) };
}

function fileCredentials(path: string, audience: Audience): CallCredentials {
  const file = new TokenFile(path);
  return { metadata: () => presented(file.read()[audience]) };
}

/** Presents the user's token of the mesh on this machine that has a service at `target`, once there is one. */
function foundCredentials(target: string, audience: Audience): CallCredentials {
  const folder = new ServingFolder(target);
  let file: TokenFile | undefined;
  return {
    metadata: () => {
      if (file === undefined) {
        const found = folder.find();
        if (found !== undefined) file = new TokenFile(found.tokenFile);
      }
      return file === undefined ? [] : presented(file.read()[audience]);
    },
  };
}

/** Returns the credentials of calls, by the environment: to the service at `target`, or to the agents of its mesh. */
export function credentialsFor(target: string, audience: Audience): CallCredentials {
  const text = process.env["ARCHON_TOKEN"];
  if (text) {
    try {
      return tokenCredentials(text, audience);
    } catch {
      throw new Unauthenticated("ARCHON_TOKEN has no token: it is not a JSON Web Token", { reason: "TOKEN_INVALID" });
    }
  }
  const path = process.env["ARCHON_TOKEN_FILE"];
  return path ? fileCredentials(path, audience) : foundCredentials(target, audience);
}

/** Whether the environment gives this process a token. */
export function hasOwnToken(): boolean {
  return Boolean(process.env["ARCHON_TOKEN"] ?? process.env["ARCHON_TOKEN_FILE"]);
}

/** Returns credentials that, if they are none, let the certificate speak for the caller. */
export function certified(folder: CertificateFolder, more: CallCredentials): CallCredentials {
  return {
    metadata: () => {
      const own = more.metadata();
      if (own.length > 0) return own;
      return mayActForOthers(folder.read().identity.kind) ? onBehalf() : [];
    },
  };
}

/** Returns the certificate for connections to `target`: that of ARCHON_TLS, else the user's of the mesh there. */
export function certificateFor(target: string): CertificateFolder | undefined {
  const own = ownFolder();
  if (own !== undefined) return own;
  if (!isLoopback(hostOf(target))) return undefined;
  const found = candidates().find((folder) => folder.encrypts(target));
  return found === undefined ? undefined : new CertificateFolder(found.userCertificate);
}
