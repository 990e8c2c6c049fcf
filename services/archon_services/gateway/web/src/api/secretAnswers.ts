/**
 * Secret answers, encrypted in the browser for the attempt that asks: neither the gateway nor the journal can read them. The
 * encryption is HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM, by the primitives of the browser.
 */
const INFO = bytesOf("archon secret answer v1");
const VERSION = bytesOf("HPKE-v1");
const KEM = bytesOf("KEM\u0000\u0020");
const SUITE = bytesOf("HPKE\u0000\u0020\u0000\u0001\u0000\u0001");
const PREFIX = "sealed:";
const PUBLIC_KEY = "x-archon-public-key";
const MAX_SECRET = 64 * 1024;
const [POINT, KEY, NONCE, HASH] = [32, 16, 12, 32];

type Bytes = Uint8Array<ArrayBuffer>;

/** Whether the answer to a question with this JSON Schema has to be encrypted. */
export function isSecret(schemaJson: string): boolean {
  return publicKeyOf(schemaJson) !== "";
}

/** Encrypts an answer for the question with this JSON Schema. Throws an Error, whose message is for the reader. */
export async function sealAnswer(schemaJson: string, answer: string): Promise<string> {
  const secret = bytesOf(answer);
  if (secret.length === 0 || secret.length > MAX_SECRET) throw new Error(`A secret answer has 1 to ${MAX_SECRET} bytes, not ${secret.length}.`);
  if (!window.isSecureContext) throw new Error("The browser encrypts over https alone, and on this machine: use `archon respond`.");
  const receiver = fromBase64(publicKeyOf(schemaJson));
  if (receiver.length !== POINT) throw new Error("The question has no valid public key to encrypt the answer with.");
  try {
    const ephemeral = (await crypto.subtle.generateKey("X25519", true, ["deriveBits"])) as CryptoKeyPair;
    const encapsulated = new Uint8Array(await crypto.subtle.exportKey("raw", ephemeral.publicKey));
    const peer = await crypto.subtle.importKey("raw", receiver, "X25519", false, []);
    const shared = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: peer }, ephemeral.privateKey, POINT * 8));
    const { key, nonce } = await schedule(shared, encapsulated, receiver);
    const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
    const sealed = new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce }, cipher, secret));
    return PREFIX + toBase64(joined(encapsulated, sealed));
  } catch {
    throw new Error("This browser cannot encrypt the answer (it needs X25519): use `archon respond`.");
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

/** Returns the key and the nonce of the first message (RFC 9180, 4.1 and 5.1). */
async function schedule(shared: Bytes, encapsulated: Bytes, receiver: Bytes): Promise<{ key: Bytes; nonce: Bytes }> {
  const none = new Uint8Array(0);
  const agreed = await extract(KEM, new Uint8Array(HASH), "eae_prk", shared);
  const kem = await expand(KEM, agreed, "shared_secret", joined(encapsulated, receiver), HASH);
  const context = joined(Uint8Array.of(0), await extract(SUITE, none, "psk_id_hash", none), await extract(SUITE, none, "info_hash", INFO));
  const secret = await extract(SUITE, kem, "secret", none);
  return { key: await expand(SUITE, secret, "key", context, KEY), nonce: await expand(SUITE, secret, "base_nonce", context, NONCE) };
}

/** LabeledExtract. */
async function extract(id: Bytes, salt: Bytes, label: string, material: Bytes): Promise<Bytes> {
  return mac(salt, VERSION, id, bytesOf(label), material);
}

/** LabeledExpand of at most one block. */
async function expand(id: Bytes, key: Bytes, label: string, info: Bytes, size: number): Promise<Bytes> {
  const block = await mac(key, Uint8Array.of(0, size), VERSION, id, bytesOf(label), info, Uint8Array.of(1));
  return block.slice(0, size);
}

/** HMAC-SHA256. WebCrypto takes no empty key: one zero byte is padded to the same key. */
async function mac(key: Bytes, ...parts: readonly Bytes[]): Promise<Bytes> {
  const raw = key.length === 0 ? new Uint8Array(1) : key;
  const imported = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, joined(...parts)));
}

function bytesOf(text: string): Bytes {
  return new TextEncoder().encode(text);
}

function joined(...parts: readonly Bytes[]): Bytes {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
}

function fromBase64(text: string): Bytes {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array(0);
  }
}

function toBase64(bytes: Bytes): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
