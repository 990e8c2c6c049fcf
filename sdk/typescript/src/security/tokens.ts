/** Tokens of a mesh: JSON Web Tokens (RFC 7519) with an Ed25519 signature (EdDSA, RFC 8037). */
import { createPublicKey, verify as verifySignature, type KeyObject } from "node:crypto";
import { FailedPrecondition, Unauthenticated } from "../errors.js";
import { CALLER_KINDS, DEFAULT_TENANT, TENANT, type CallerKind, type Principal } from "../principal.js";
import type { Audience } from "./peer.js";

const MAX_TOKEN = 8_192;

/** The public keys of a mesh, by id, and the ids of its revoked tokens. */
export interface KeySet {
  readonly issuer: string;
  readonly keys: ReadonlyMap<string, KeyObject>;
  readonly revoked: ReadonlySet<string>;
}

function invalid(message: string): Unauthenticated {
  return new Unauthenticated(message, { reason: "TOKEN_INVALID" });
}

/** Reads a key set as JSON. Throws FailedPrecondition if it is no key set, or has no key of Ed25519. */
export function parseKeySet(text: string): KeySet {
  const keys = new Map<string, KeyObject>();
  try {
    const content = JSON.parse(text) as { keys: Record<string, string>[]; issuer: string; revoked?: unknown[] };
    for (const jwk of content.keys) {
      if (jwk["kty"] !== "OKP" || jwk["crv"] !== "Ed25519") continue;
      keys.set(String(jwk["kid"]), createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: jwk["x"] }, format: "jwk" }));
    }
    if (keys.size === 0) throw new Error("no key");
    return { issuer: content.issuer, keys, revoked: new Set((content.revoked ?? []).map(String)) };
  } catch {
    throw new FailedPrecondition("it is not a set of public keys of a mesh");
  }
}

function decoded(part: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part ?? "", "base64url").toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // as below
  }
  throw invalid("the text is not a JSON Web Token");
}

/** Returns the claims of a token without verifying it. Throws Unauthenticated / TOKEN_INVALID if it is no token. */
export function claimsOf(token: string): Record<string, unknown> {
  return decoded(token.split(".")[1]);
}

/** Returns the caller of a token. Throws Unauthenticated with TOKEN_INVALID, TOKEN_EXPIRED or TOKEN_REVOKED. */
export function verifyToken(token: string, keys: KeySet, audience: Audience): Principal {
  if (token.length > MAX_TOKEN) throw invalid(`the token has more than ${MAX_TOKEN} characters`);
  const [head, body, signature, ...rest] = token.split(".");
  const header = decoded(head);
  const claims = decoded(body);
  const key = keys.keys.get(typeof header["kid"] === "string" ? header["kid"] : "");
  if (key === undefined) {
    throw invalid(`the token was signed by another mesh than ${keys.issuer}, or with an earlier key of it`);
  }
  const isSigned =
    header["alg"] === "EdDSA" &&
    rest.length === 0 &&
    verifySignature(null, Buffer.from(`${head}.${body}`), key, Buffer.from(signature ?? "", "base64url"));
  const { exp, iat, jti, sub, aud, iss, nbf } = claims;
  const isComplete = typeof exp === "number" && iat !== undefined && typeof jti === "string" && typeof sub === "string";
  if (!isSigned || !isComplete || iss !== keys.issuer || (typeof nbf === "number" && nbf * 1000 > Date.now())) {
    throw invalid("the token is not valid: its signature or its claims are wrong");
  }
  if (Date.now() >= exp * 1000) throw new Unauthenticated("the token has expired", { reason: "TOKEN_EXPIRED" });
  if (aud !== audience && !(Array.isArray(aud) && aud.includes(audience))) {
    throw invalid(`the token is not for the ${audience} of the mesh`);
  }
  if (keys.revoked.has(jti)) throw new Unauthenticated("the token was revoked", { reason: "TOKEN_REVOKED" });
  const kind = claims["kind"];
  if (!CALLER_KINDS.includes(kind as CallerKind)) throw invalid("the token names no kind of caller that this mesh knows");
  const tenant = claims["tenant"] ?? DEFAULT_TENANT;
  if (typeof tenant !== "string" || !TENANT.test(tenant)) throw invalid("the token names no tenant");
  return { kind: kind as CallerKind, name: sub, tenant, expires: exp * 1000, tokenId: jti };
}
