import { afterEach, expect, test, vi } from "vitest";
import { call } from "./calls.js";
import { problemOf } from "./problem.js";

const SERVICE = "archon.api.orchestrator.v1.OrchestratorService";

function answers(status: number, body: string): ReturnType<typeof vi.fn> {
  const fetched = vi.fn(async () => new Response(body, { status }));
  vi.stubGlobal("fetch", fetched);
  return fetched;
}
const problem = async (): Promise<unknown> => problemOf(await call(SERVICE, "getRun", { runId: "r" }).catch((thrown: unknown) => thrown));

afterEach(() => vi.unstubAllGlobals());

test("a call is a request in JSON at the path of its RPC", async () => {
  const fetched = answers(200, `{"run": {"runId": "r", "createTime": "2026-01-02T03:04:05Z", "ofTomorrow": 1}}`);
  const answer = (await call(SERVICE, "getRun", { runId: "r" }, { headers: { "archon-identity": "ada" } })) as { run: { runId: string; createTime: { seconds: bigint } } };
  expect(answer.run.runId).toBe("r");
  expect(answer.run.createTime.seconds).toBe(1_767_323_045n);
  const [path, request] = fetched.mock.calls[0] as [string, RequestInit];
  expect([path, request.method, request.body]).toEqual([`/${SERVICE}/GetRun`, "POST", `{"runId":"r"}`]);
  expect(request.headers).toMatchObject({ "content-type": "application/json", "connect-protocol-version": "1", "archon-identity": "ada" });
});

test("a refusal has the code and the message of the mesh", async () => {
  answers(404, `{"code": "not_found", "message": "there is no run r"}`);
  expect(await problem()).toEqual({ code: "NOT_FOUND", message: "there is no run r" });
});

test("an answer of a proxy has a code by its status", async () => {
  answers(502, "<html>Bad gateway</html>");
  expect(await problem()).toEqual({ code: "UNAVAILABLE", message: "The gateway has answered with HTTP status 502." });
  answers(401, "");
  expect(await problem()).toMatchObject({ code: "UNAUTHENTICATED" });
  answers(200, "<html>Log in</html>");
  expect(await problem()).toMatchObject({ code: "UNKNOWN" });
});

test("a gateway that is away, or slow, is a problem in words", async () => {
  vi.stubGlobal("fetch", async () => Promise.reject(new TypeError("Failed to fetch")));
  expect(await problem()).toMatchObject({ code: "UNAVAILABLE", message: "The gateway cannot be reached." });
  vi.stubGlobal("fetch", async () => Promise.reject(new DOMException("", "TimeoutError")));
  expect(await problem()).toMatchObject({ code: "DEADLINE_EXCEEDED" });
});
