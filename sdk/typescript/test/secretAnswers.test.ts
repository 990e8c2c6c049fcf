import assert from "node:assert/strict";
import { test } from "vitest";
import { InvalidArgument, isSecret, MAX_SECRET, sealAnswer, SecretQuestion } from "../src/index.js";

test("a secret answer is read by its question alone", () => {
  const question = new SecretQuestion();
  const sealed = sealAnswer(question.schemaJson, "hunter2 é");
  assert.ok(!sealed.includes("hunter2"));
  assert.equal(question.open(sealed), "hunter2 é");
  assert.throws(() => new SecretQuestion().open(sealed), InvalidArgument);
  for (const answer of ["hunter2", "sealed:", "sealed:!", "sealed:AAAA", ""]) {
    assert.throws(() => question.open(answer), (error) => error instanceof InvalidArgument && !error.message.includes("hunter2"));
  }
});

test("an answer that cannot be sealed is refused", () => {
  const { schemaJson } = new SecretQuestion();
  assert.ok(isSecret(schemaJson) && !isSecret('{"type": "string"}'));
  const refused: [string, string][] = [
    [schemaJson, ""],
    [schemaJson, "x".repeat(MAX_SECRET + 1)],
    ['{"type": "string"}', "x"],
    ["no JSON", "x"],
    ['{"x-archon-public-key": "AAAA"}', "x"],
  ];
  for (const [schema, answer] of refused) assert.throws(() => sealAnswer(schema, answer), InvalidArgument);
});
