/** Who calls: a person, a client program, an agent or a service of the mesh. */

export const DEFAULT_TENANT = "default";

/** The name of a tenant: it is a label of DNS names, and a part of SPIFFE ids. */
export const TENANT = /^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/;

export const CALLER_KINDS = ["viewer", "auditor", "operator", "admin", "agent", "service"] as const;

/** The kind of a caller, on which its permissions depend. */
export type CallerKind = (typeof CALLER_KINDS)[number];

/** A caller whose credentials were verified. */
export interface Principal {
  readonly kind: CallerKind;
  /** A person's or a client's name, the role of an agent, or the name of a service. */
  readonly name: string;
  readonly tenant: string;
  /** When its credentials end, in milliseconds since the Unix epoch. */
  readonly expires: number;
  /** Empty if it has no token. */
  readonly tokenId: string;
}

/** Returns the identity of a caller, such as `alice`, `agent:reviewer` or `service:orchestrator`. */
export function identityOf(principal: Principal): string {
  const { kind, name } = principal;
  return kind === "agent" || kind === "service" ? `${kind}:${name}` : name;
}

/** Whether a kind's calls may name another identity, on whose behalf they are made. */
export function mayActForOthers(kind: unknown): boolean {
  return kind === "admin" || kind === "service";
}

/** Whether a caller serves all tenants: a service of the default tenant. */
export function isOfAllTenants(principal: Principal): boolean {
  return principal.kind === "service" && principal.tenant === DEFAULT_TENANT;
}
