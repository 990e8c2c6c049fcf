/**
 * The certificate of this process for mutual TLS: in a folder with tls.crt, tls.key and ca.crt, the layout of a secret of
 * cert-manager. Files that were replaced are used from the next connection on.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { FailedPrecondition, Unauthenticated } from "../errors.js";
import { CALLER_KINDS, DEFAULT_TENANT, type CallerKind, type Principal } from "../principal.js";
import type { Peer } from "./peer.js";

const MAX_BYTES = 1024 * 1024;
const FILES = ["tls.crt", "tls.key", "ca.crt"] as const;
const SEGMENT = "[A-Za-z0-9][A-Za-z0-9._@-]{0,254}";
const SPIFFE_ID = new RegExp(
  `^spiffe://([a-z0-9][a-z0-9._-]{0,254})/ns/(${SEGMENT})/(${CALLER_KINDS.join("|")})/(${SEGMENT})$`,
);

/** The SPIFFE id of a member: of the mesh `mesh`, in a tenant, of a kind, with a name. */
export interface SpiffeId {
  readonly mesh: string;
  readonly tenant: string;
  readonly kind: CallerKind;
  readonly name: string;
}

/** The certificate of a member with its chain and its key, and the authorities that it trusts, all as PEM. */
export interface OwnCertificate {
  readonly chain: Buffer;
  readonly key: Buffer;
  readonly authorities: Buffer;
  readonly identity: SpiffeId;
}

/** Returns the SPIFFE id of a certificate. Throws FailedPrecondition if it has none, or several. */
export function spiffeIdOf(certificate: X509Certificate): SpiffeId {
  const names = (certificate.subjectAltName ?? "").split(", ");
  const uris = names.filter((name) => name.startsWith("URI:")).map((name) => name.slice(4));
  if (uris.length !== 1) {
    throw new FailedPrecondition(
      `the certificate has ${uris.length} URIs, and needs one: spiffe://MESH/ns/TENANT/KIND/NAME`,
    );
  }
  const match = SPIFFE_ID.exec(uris[0] ?? "");
  if (match === null) {
    throw new FailedPrecondition(`'${uris[0]}' is not the id of a member: spiffe://MESH/ns/TENANT/KIND/NAME`);
  }
  const [, mesh = "", tenant = "", kind, name = ""] = match;
  return { mesh, tenant, kind: kind as CallerKind, name };
}

/** Returns the name of DNS that a peer's certificate must have. Services are of the default tenant. */
export function dnsNameOf(peer: Peer, own: SpiffeId): string {
  const tenant = peer.kind === "service" ? DEFAULT_TENANT : own.tenant;
  return `${peer.name}.${peer.kind}.${tenant}.${own.mesh}`;
}

/** Returns the member that the certificate of a connection names. Throws Unauthenticated / CERTIFICATE_REFUSED. */
export function memberOf(raw: Buffer, mesh: string): Principal {
  let certificate: X509Certificate;
  let identity: SpiffeId;
  try {
    certificate = new X509Certificate(raw);
    identity = spiffeIdOf(certificate);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw refused(`the certificate of the connection names no member of the mesh: ${why}`);
  }
  if (identity.mesh !== mesh) {
    throw refused(`the certificate of the connection is of the mesh ${identity.mesh}, this is ${mesh}`);
  }
  const { kind, name, tenant } = identity;
  return { kind, name, tenant, expires: Date.parse(certificate.validTo), tokenId: "" };
}

/** Returns the error of a certificate that is not accepted. */
export function refused(message: string): Unauthenticated {
  return new Unauthenticated(message, { reason: "CERTIFICATE_REFUSED" });
}

/** The folder of the certificate, which is read again if a file has changed: at most once in `interval` milliseconds. */
export class CertificateFolder {
  #checked = Number.NEGATIVE_INFINITY;
  #stamp = "";
  #read: OwnCertificate | undefined;

  constructor(
    readonly folder: string,
    readonly interval = 1000,
  ) {}

  /**
   * Returns the certificate: the same object until the files change. Files that cannot be used leave the last one in force, as
   * while they are being replaced; throws FailedPrecondition if there was none.
   */
  read(): OwnCertificate {
    const time = performance.now();
    if (this.#read !== undefined && time - this.#checked < this.interval) return this.#read;
    this.#checked = time;
    try {
      const paths = FILES.map((name) => join(this.folder, name));
      const entries = paths.map((path) => statSync(path));
      const stamp = entries.map((entry) => `${entry.mtimeMs}/${entry.size}/${entry.ino}`).join(" ");
      if (stamp !== this.#stamp) {
        if (entries.some((entry) => entry.size > MAX_BYTES)) throw new Error(`a file has more than ${MAX_BYTES} bytes`);
        const [chain, key, authorities] = paths.map((path) => readFileSync(path)) as [Buffer, Buffer, Buffer];
        this.#read = checked(chain, key, authorities);
        this.#stamp = stamp;
      }
    } catch (error) {
      if (this.#read === undefined) {
        const why = error instanceof Error ? error.message : String(error);
        throw new FailedPrecondition(`cannot use the certificate in ${this.folder}: ${why}`);
      }
    }
    return this.#read as OwnCertificate;
  }
}

function checked(chain: Buffer, key: Buffer, authorities: Buffer): OwnCertificate {
  const leaf = new X509Certificate(chain);
  new X509Certificate(authorities); // throws if there is none
  if (!leaf.checkPrivateKey(createPrivateKey(key))) throw new Error("tls.key is not the key of tls.crt");
  return { chain, key, authorities, identity: spiffeIdOf(leaf) };
}

const folders = new Map<string, CertificateFolder>();

/** Returns the folder that ARCHON_TLS names; undefined if it names none. Throws FailedPrecondition if it cannot be used. */
export function ownFolder(): CertificateFolder | undefined {
  const path = process.env["ARCHON_TLS"];
  if (!path) return undefined;
  let folder = folders.get(path);
  if (folder === undefined) {
    folder = new CertificateFolder(path);
    folder.read();
    folders.set(path, folder);
  }
  return folder;
}
