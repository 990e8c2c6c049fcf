import { describe, expect, it } from "vitest";
import { draftOf, hasProblem, valueOf } from "./draft.js";
import { fieldOf, type Field } from "./fields.js";
import { schemaProblem } from "./form.svelte.js";
import type { Json } from "./json.js";

function filled(schema: Json, value?: Json): { value: Json | undefined; valid: boolean } {
  const field = fieldOf(schema);
  const draft = draftOf(field, value ?? field.initial);
  const read = valueOf(field, draft);
  return { value: read, valid: !hasProblem(draft) };
}

const kinds = (field: Field): unknown => field.children.length === 0 ? field.kind : { [field.kind]: field.children.map(([, child]) => kinds(child)) };

describe("fields", () => {
  it.each<[Json, unknown]>([
    [{ type: "string" }, "text"],
    [{ type: "string", maxLength: 5_000 }, "long text"],
    [{ type: "integer" }, "number"],
    [{ enum: ["a", 1, null] }, "choice"],
    [{ oneOf: [{ const: 1, title: "one" }, { const: 2 }] }, "choice"],
    [{ const: "x" }, "constant"],
    [{ type: "array", items: { enum: ["a", "b"] }, uniqueItems: true }, "choices"],
    [{ type: "object", properties: { a: { type: "boolean" }, b: { type: "array", items: { type: "number" } } } }, { object: ["boolean", { list: ["number"] }] }],
    [{ type: "object", additionalProperties: { type: "string" } }, "json"],
    [{ anyOf: [{ type: "string" }, { type: "number" }] }, "json"],
    [{ type: ["string", "number"] }, "json"],
    [{ not: {} }, "json"],
    [true, "json"],
    [{ $ref: "https://example.com/schema" }, "json"],
  ])("of %j are %j", (schema, expected) => expect(kinds(fieldOf(schema))).toEqual(expected));

  it("follow references and leave null aside", () => {
    const schema = { $defs: { City: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } }, type: "object", properties: { city: { anyOf: [{ $ref: "#/$defs/City" }, { type: "null" }] } } };
    expect(kinds(fieldOf(schema))).toEqual({ object: [{ object: ["text"] }] });
  });

  it("end where a schema refers to itself", () => {
    const schema = { $defs: { Tree: { type: "object", properties: { child: { $ref: "#/$defs/Tree" } } } }, $ref: "#/$defs/Tree" };
    expect(JSON.stringify(kinds(fieldOf(schema)))).toContain("json");
    expect(fieldOf({ $ref: "#" }).kind).toBe("json");
  });
});

describe("values", () => {
  it("have their defaults", () => {
    const schema = { type: "object", properties: { n: { type: "integer", default: 3 }, on: { type: "boolean", default: false }, t: { type: "string" } } };
    expect(filled(schema)).toEqual({ value: { n: 3, on: false }, valid: true });
  });

  it("leave out what may be left out, also an object with required fields", () => {
    const schema = { type: "object", properties: { a: { type: "string" }, inner: { type: "object", properties: { b: { type: "string" } }, required: ["b"] } } };
    expect(filled(schema)).toEqual({ value: {}, valid: true });
  });

  it("need what is required", () => {
    expect(filled({ type: "object", properties: { a: { type: "number" } }, required: ["a"] }).valid).toBe(false);
    expect(filled({ type: "object", properties: { a: { type: ["number", "null"] } }, required: ["a"] })).toEqual({ value: { a: null }, valid: true });
  });

  it("keep the types of choices", () => expect(filled({ enum: ["1", 1, true] }, 1).value).toBe(1));

  it("refuse numbers that are none, are not whole, or out of range", () => {
    const field = fieldOf({ type: "integer", minimum: 1, maximum: 5 });
    for (const text of ["x", "1.5", "0", "6", "1e400", "12345678901234567890"]) {
      const draft = { text, children: [], problem: "" };
      expect(valueOf(field, draft)).toBeUndefined();
      expect(draft.problem).not.toBe("");
    }
    expect(valueOf(field, { text: " 5 ", children: [], problem: "" })).toBe(5);
  });

  it("keep keys that objects of the language have", () => {
    const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string","default":"x"},"constructor":{"type":"string"}}}') as Json;
    expect(JSON.stringify(filled(schema).value)).toBe('{"__proto__":"x"}');
  });
});

describe("schemas", () => {
  it("say what a value breaks", () => {
    expect(schemaProblem({ type: "object", required: ["a"] }, {})).toContain("a");
    expect(schemaProblem({ type: "array", items: { type: "string", format: "email" } }, ["x"])).not.toBe("");
    expect(schemaProblem({ type: "string" }, "x")).toBe("");
  });

  it("cannot keep the browser busy, or fetch anything", () => {
    expect(schemaProblem({ type: "string", pattern: "^(a+)+$" }, `${"a".repeat(40)}!`)).toBe("");
    expect(schemaProblem({ $ref: "https://example.com/x" }, 1)).toBe("");
  });
});
