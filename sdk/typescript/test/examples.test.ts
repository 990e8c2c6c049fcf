/** The code on docs/typescript.md is that of the examples, which are type-checked; the tests among them run. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { testCompare } from "../examples/testing.js";
import { setLogger } from "../src/index.js";

setLogger(() => undefined);

const FOLDER = new URL("../examples/", import.meta.url);
const PAGE = readFileSync(new URL("../../../docs/typescript.md", import.meta.url), "utf8");
const QUOTED = [...PAGE.matchAll(/^```(?:typescript|ts)\n(.*?)^```$/gms)].map(([, code = ""]) => code);

test("each example is on the page exactly as it is, and the page has no other code", () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".ts"));
  const sources = files.map((name) => readFileSync(new URL(name, FOLDER), "utf8"));
  expect([...QUOTED].sort()).toEqual([...sources].sort());
});

test("the example of a test passes", testCompare);
