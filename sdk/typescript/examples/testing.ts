import assert from "node:assert/strict";
import { FakeAgent, FakeOrchestrator } from "@archon-mesh/sdk/testing";
import { compare } from "./delegation.js";

/** Tests a handler without a mesh: a real agent over a real connection, and an orchestrator that the test plays. */
export async function testCompare(): Promise<void> {
  await using agent = await FakeAgent.start("judge", [compare]);
  using peer = await FakeOrchestrator.connect(agent.address);
  const task = peer.ref("task-1");
  peer.assign(task, "Is it good?", { remainingMs: 5_000 });
  for (const answer of ["yes", "no"]) {
    const { delegationId } = await peer.delegation(task);
    peer.complete(task, delegationId, answer);
  }
  assert.equal((await peer.result(task)).text, "optimist: yes\npessimist: no");
}
