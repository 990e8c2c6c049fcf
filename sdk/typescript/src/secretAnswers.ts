/**
 * Secret answers of people, encrypted for the attempt that asks: no journal, record or watcher of the run has them. The encryption
 * is HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM, by the primitives of Node.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { InvalidArgument } from "./errors.js";

const INFO = "archon secret answer v1";
const PREFIX = "sealed:";
const PUBLIC_KEY = "x-archon-public-key";
const SEALED = new RegExp(`^${PREFIX}[A-Za-z0-9+/]+=*$`);

/** Bytes of a secret answer. */
export const MAX_SECRET = 64 * 1024;

const CIPHER = "aes-128-gcm";
const VERSION = "HPKE-v1";
const KEM = Buffer.from("KEM\u0000\u0020", "latin1");
const SUITE = Buffer.from("HPKE\u0000\u0020\u0000\u0001\u0000\u0001", "latin1");
const POINT = 32;
const KEY = 16;
const NONCE = 12;
const TAG = 16;
const HASH = 32;

/** A question whose answer only this object can read. */
export class SecretQuestion {
  readonly #pair = generateKeyPairSync("x25519");

  /** The JSON Schema of the answer. It accepts no answer that is not encrypted. */
  get schemaJson(): string {
    const key = raw(this.#pair.publicKey).toString("base64");
    return JSON.stringify({ type: "string", pattern: SEALED.source, writeOnly: true, [PUBLIC_KEY]: key });
  }

  /** Returns the text of an answer. Throws InvalidArgument if it was not encrypted for this question. */
  open(answer: string): string {
    try {
      if (!SEALED.test(answer)) throw new RangeError("it has another form");
      const sealed = Buffer.from(answer.slice(PREFIX.length), "base64");
      const encapsulated = sealed.subarray(0, POINT);
      const ciphertext = sealed.subarray(POINT, -TAG);
      const shared = diffieHellman({ privateKey: this.#pair.privateKey, publicKey: publicKey(encapsulated) });
      const { key, nonce } = schedule(shared, encapsulated, raw(this.#pair.publicKey));
      const cipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG }).setAuthTag(sealed.subarray(-TAG));
      return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat([cipher.update(ciphertext), cipher.final()]));
    } catch {
      throw new InvalidArgument("the answer was not encrypted for this question");
    }
  }
}

/** Whether the answer to a question with this JSON Schema has to be encrypted. */
export function isSecret(schemaJson: string): boolean {
  return publicKeyOf(schemaJson) !== "";
}

/**
 * Encrypts an answer for the question with this JSON Schema. Throws InvalidArgument if the schema has no valid public key, or the
 * answer is empty or above MAX_SECRET bytes.
 */
export function sealAnswer(schemaJson: string, answer: string): string {
  const secret = Buffer.from(answer);
  if (secret.length === 0 || secret.length > MAX_SECRET) {
    throw new InvalidArgument(`a secret answer has 1 to ${MAX_SECRET} bytes, not ${secret.length}`);
  }
  try {
    const receiver = Buffer.from(publicKeyOf(schemaJson), "base64");
    const ephemeral = generateKeyPairSync("x25519");
    const encapsulated = raw(ephemeral.publicKey);
    const shared = diffieHellman({ privateKey: ephemeral.privateKey, publicKey: publicKey(receiver) });
    const { key, nonce } = schedule(shared, encapsulated, receiver);
    const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG });
    const ciphertext = Buffer.concat([cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
    return PREFIX + Buffer.concat([encapsulated, ciphertext]).toString("base64");
  } catch {
    throw new InvalidArgument("the question has no valid public key to encrypt the answer with");
  }
}

function publicKeyOf(schemaJson: string): string {
  try {
    const key = (JSON.parse(schemaJson) as Record<string, unknown> | null)?.[PUBLIC_KEY];
    return typeof key === "string" ? key : "";
  } catch {
    return "";
  }
}

function raw(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url");
}

function publicKey(point: Uint8Array): KeyObject {
  if (point.length !== POINT) throw new RangeError("a public key has 32 bytes");
  return createPublicKey({ key: { kty: "OKP", crv: "X25519", x: Buffer.from(point).toString("base64url") }, format: "jwk" });
}

/** Returns the key and the nonce of the first message (RFC 9180, 4.1 and 5.1). */
function schedule(shared: Uint8Array, encapsulated: Uint8Array, receiver: Uint8Array): { key: Buffer; nonce: Buffer } {
  const none = Buffer.alloc(0);
  const zeroes = Buffer.alloc(HASH);
  const whole = Buffer.concat([encapsulated, receiver]);
  const kem = expand(KEM, extract(KEM, zeroes, "eae_prk", shared), "shared_secret", whole, HASH);
  const hashes = [extract(SUITE, zeroes, "psk_id_hash", none), extract(SUITE, zeroes, "info_hash", Buffer.from(INFO))];
  const context = Buffer.concat([Buffer.of(0), ...hashes]);
  const secret = extract(SUITE, kem, "secret", none);
  return { key: expand(SUITE, secret, "key", context, KEY), nonce: expand(SUITE, secret, "base_nonce", context, NONCE) };
}

/** LabeledExtract. */
function extract(id: Uint8Array, salt: Uint8Array, label: string, material: Uint8Array): Buffer {
  return mac(salt, Buffer.from(VERSION), id, Buffer.from(label), material);
}

/** LabeledExpand of at most one block. */
function expand(id: Uint8Array, key: Uint8Array, label: string, info: Uint8Array, size: number): Buffer {
  const parts = [Buffer.of(0, size), Buffer.from(VERSION), id, Buffer.from(label), info, Buffer.of(1)];
  return mac(key, ...parts).subarray(0, size);
}

function mac(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  const hash = createHmac("sha256", key);
  for (const part of parts) hash.update(part);
  return hash.digest();
}
