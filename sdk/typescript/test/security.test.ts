/** Callers of an agent are let in by tokens, whose keys the registry tells, or a file has. */
import { generateKeyPairSync, sign } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { AgentService } from "../src/api/archon/api/agent/v1/agent_service_pb.js";
import { Channel } from "../src/channel.js";
import { NO_CREDENTIALS, setLogger, tokenCredentials } from "../src/index.js";
import { agentPeer } from "../src/security/peer.js";
import { parseKeySet, verifyToken } from "../src/security/tokens.js";
import { FakeAgent } from "../src/testing/index.js";

setLogger(() => undefined);

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const { x } = publicKey.export({ format: "jwk" });
const KEYS = JSON.stringify({ keys: [{ kty: "OKP", crv: "Ed25519", x, kid: "k1" }], issuer: "mesh-1", revoked: ["gone"] });

function token(claims: object = {}, header: object = {}): string {
  const now = Math.floor(Date.now() / 1000);
  const own = { iss: "mesh-1", sub: "orchestrator", kind: "service", aud: "agents", iat: now, exp: now + 60, jti: "j", ...claims };
  const parts = [{ alg: "EdDSA", kid: "k1", ...header }, own].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
  return `${parts.join(".")}.${sign(null, Buffer.from(parts.join(".")), privateKey).toString("base64url")}`;
}

afterEach(() => {
  delete process.env["ARCHON_KEYS"];
});

test.each([
  ["a valid one", {}, {}, ""],
  ["another audience", { aud: "services" }, {}, "TOKEN_INVALID"],
  ["another mesh", { iss: "mesh-2" }, {}, "TOKEN_INVALID"],
  ["another key", {}, { kid: "k2" }, "TOKEN_INVALID"],
  ["no algorithm", {}, { alg: "none" }, "TOKEN_INVALID"],
  ["an unknown kind", { kind: "root" }, {}, "TOKEN_INVALID"],
  ["one that has expired", { exp: 1 }, {}, "TOKEN_EXPIRED"],
  ["one that was revoked", { jti: "gone" }, {}, "TOKEN_REVOKED"],
])("a token is verified: %s", (_, claims, header, reason) => {
  const verify = (): unknown => verifyToken(token(claims, header), parseKeySet(KEYS), "agents");
  if (reason) expect(verify).toThrow(expect.objectContaining({ code: "UNAUTHENTICATED", reason }) as never);
  else expect(verify()).toMatchObject({ kind: "service", name: "orchestrator", tenant: "default" });
});

test("an agent with keys lets in callers by their kind, and refuses the others typed", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "archon-keys-")), "keys.json");
  writeFileSync(path, KEYS);
  process.env["ARCHON_KEYS"] = path;
  const agent = await FakeAgent.start("guarded");
  const call = async (text: string): Promise<unknown> => {
    const credentials = text ? tokenCredentials(text, "agents") : NO_CREDENTIALS;
    using channel = new Channel(agent.address, agentPeer("guarded"), { credentials });
    const task = { input: [{ content: { case: "text" as const, value: "x" } }] };
    await channel.unary(AgentService.method.describe, {});
    for await (const { event } of channel.serverStream(AgentService.method.runTask, { task })) return event.case;
    return undefined;
  };
  await expect(call("")).rejects.toMatchObject({ reason: "TOKEN_MISSING" });
  await expect(call(token({ aud: "services" }))).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  await expect(call(token({ kind: "agent", sub: "other" }))).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  expect(await call(token())).toBe("result");
  await agent.close();
});
