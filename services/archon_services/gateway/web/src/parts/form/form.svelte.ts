/** A form for a value that a JSON Schema describes. */
import { Validator, type Schema } from "@cfworker/json-schema";
import { draftOf, hasProblem, valueOf, type Draft } from "./draft.js";
import { fieldOf, type Field } from "./fields.js";
import { isObject, parsed, type Json } from "./json.js";

export class Form {
  readonly field: Field;
  draft: Draft = $state({ text: "", children: [], problem: "" });
  /** What is wrong with the value as a whole, in a sentence. */
  problem = $state("");
  readonly #schema: Json;

  /** `initial` is the value that the form begins with; undefined: the defaults of the schema. */
  constructor(schemaJson: string, initial?: Json) {
    this.#schema = parsed(schemaJson) ?? {};
    this.field = fieldOf(this.#schema);
    this.draft = draftOf(this.field, initial ?? this.field.initial);
  }

  /** Returns the value, or undefined if it is not valid: the problems are shown then. */
  read(): Json | undefined {
    this.problem = "";
    const value = valueOf(this.field, this.draft);
    if (hasProblem(this.draft)) {
      this.problem = "Some fields are not filled in correctly.";
      return undefined;
    }
    if (value === undefined) {
      this.problem = "A value is needed.";
      return undefined;
    }
    this.problem = schemaProblem(this.#schema, value);
    return this.problem === "" ? value : undefined;
  }
}

/** Returns how a value breaks a schema, in a sentence; empty if it does not, or if the schema cannot be used here: the
 * orchestrator checks each answer, too. */
export function schemaProblem(schema: Json, value: Json): string {
  try {
    const { valid, errors } = new Validator(withoutPatterns(schema) as Schema | boolean, "2020-12", false).validate(value);
    if (valid) return "";
    const last = errors.at(-1);
    const place = last?.instanceLocation.replace(/^#\/?/, "") ?? "";
    return `${place === "" ? "" : `${place}: `}${last?.error ?? "The value does not match the schema."}`;
  } catch {
    return "";
  }
}

/** A pattern of an agent could keep the browser busy for ever. */
function withoutPatterns(schema: Json, depth = 0): Json {
  if (depth > 40) return {};
  if (Array.isArray(schema)) return schema.map((each) => withoutPatterns(each, depth + 1));
  if (!isObject(schema)) return schema;
  const pairs = Object.entries(schema).filter(([key, value]) => !(key === "pattern" && typeof value === "string") && key !== "patternProperties");
  return Object.fromEntries(pairs.map(([key, value]) => [key, key === "enum" || key === "const" || key === "default" ? value : withoutPatterns(value, depth + 1)]));
}
