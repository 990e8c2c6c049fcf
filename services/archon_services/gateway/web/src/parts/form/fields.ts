/** The fields of a form, from a JSON Schema. What no field fits is edited as JSON text. */
import { shownName } from "../names.js";
import { isObject, type Json, type JsonObject } from "./json.js";

export type FieldKind = "text" | "long text" | "number" | "boolean" | "choice" | "choices" | "object" | "list" | "constant" | "json";

export interface Field {
  readonly kind: FieldKind;
  readonly label: string;
  readonly description: string;
  readonly required: boolean;
  /** Whether `null` is a value of it: a required field that is left empty has it. */
  readonly nullable: boolean;
  readonly initial: Json | undefined;
  /** Of a text its format, such as `date`; of a number whether it is whole. */
  readonly format: string;
  readonly whole: boolean;
  readonly least: number | undefined;
  readonly most: number | undefined;
  /** The values of a choice, or the value of a constant. */
  readonly options: readonly { readonly value: Json; readonly label: string }[];
  /** The fields of an object with their keys; of a list the field of its items, under the key "". */
  readonly children: readonly (readonly [key: string, field: Field])[];
}

/** Levels of nested objects and lists that become fields: the rest is JSON text. */
const MAX_DEPTH = 6;

/** Fields of one object, above which it is JSON text. */
const MAX_FIELDS = 100;

/** Characters of a label or a description. */
const MAX_LABEL = 2_000;

/** Characters from which a text has several lines. */
const LONG = 200;

export function fieldOf(schema: Json, root: Json = schema, label = "", required = true, depth = 0): Field {
  const { schema: plain, nullable } = simplified(schema, root);
  const make = (kind: FieldKind, more: Partial<Field> = {}): Field => ({
    kind,
    label: text(plain["title"]) || label,
    description: text(plain["description"]),
    required,
    nullable,
    initial: "default" in plain ? plain["default"] : undefined,
    format: text(plain["format"]),
    whole: plain["type"] === "integer",
    least: number(plain["minimum"] ?? plain["minLength"] ?? plain["minItems"]),
    most: number(plain["maximum"] ?? plain["maxLength"] ?? plain["maxItems"]),
    options: [],
    children: [],
    ...more,
  });

  if ("const" in plain) return make("constant", { options: options([plain["const"] ?? null]) });
  const choices = choicesOf(plain);
  if (choices !== undefined) return make("choice", { options: choices });
  switch (plain["type"]) {
    case "string":
      return make(isLong(plain) ? "long text" : "text");
    case "number":
    case "integer":
      return make("number");
    case "boolean":
      return make("boolean");
    case "object": {
      const properties = plain["properties"];
      if (!isObject(properties) || depth >= MAX_DEPTH) break;
      const entries = Object.entries(properties);
      if (entries.length === 0 || entries.length > MAX_FIELDS || isObject(plain["patternProperties"])) break;
      const wanted = Array.isArray(plain["required"]) ? plain["required"] : [];
      const children = entries.map(([key, each]) => [key, fieldOf(each, root, key, wanted.includes(key), depth + 1)] as const);
      return make("object", { children });
    }
    case "array": {
      const items = plain["items"];
      if (!isObject(items) || "prefixItems" in plain || depth >= MAX_DEPTH) break;
      const item = fieldOf(items, root, "", true, depth + 1);
      const several = item.kind === "choice" && plain["uniqueItems"] === true;
      return several ? make("choices", { options: item.options }) : make("list", { children: [["", item]] });
    }
  }
  return make("json");
}

/** Returns a schema without references, and without `null` as one of its types. */
function simplified(schema: Json, root: Json): { schema: JsonObject; nullable: boolean } {
  let plain: JsonObject = isObject(schema) ? schema : {};
  let nullable = false;
  for (let step = 0; step < 20; step++) {
    const reference = plain["$ref"];
    const alternatives = plain["anyOf"] ?? plain["oneOf"];
    const type = plain["type"];
    if (typeof reference === "string") {
      const target = resolved(reference, root);
      if (target === undefined) return { schema: {}, nullable };
      plain = { ...target, ...without(plain, "$ref") };
    } else if (Array.isArray(plain["allOf"]) && plain["allOf"].length === 1 && isObject(plain["allOf"][0])) {
      plain = { ...plain["allOf"][0], ...without(plain, "allOf") };
    } else if (Array.isArray(type) && type.includes("null")) {
      const others = type.filter((each) => each !== "null");
      [plain, nullable] = [{ ...plain, type: others.length === 1 ? (others[0] ?? null) : others }, true];
    } else if (Array.isArray(alternatives) && alternatives.some(isNull)) {
      const rest = without(plain, "anyOf", "oneOf");
      const others = alternatives.filter((each) => !isNull(each));
      nullable = true;
      plain = others.length === 1 && isObject(others[0]) ? { ...others[0], ...rest } : { ...rest, anyOf: others };
    } else break;
  }
  return { schema: plain, nullable };
}

function without(schema: JsonObject, ...keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !keys.includes(key)));
}

function isNull(schema: Json): boolean {
  return isObject(schema) && schema["type"] === "null";
}

/** Resolves a reference inside of the schema, such as `#/$defs/City`. */
function resolved(reference: string, root: Json): JsonObject | undefined {
  if (!reference.startsWith("#")) return undefined;
  let found: Json | undefined = root;
  for (const segment of reference.slice(1).split("/").filter((each) => each !== "")) {
    const key = segment.replace(/~1/g, "/").replace(/~0/g, "~");
    found = isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
  }
  return isObject(found) ? found : undefined;
}

function choicesOf(schema: JsonObject): Field["options"] | undefined {
  const listed = schema["enum"];
  if (Array.isArray(listed) && listed.length > 0) return options(listed);
  const alternatives = schema["oneOf"] ?? schema["anyOf"];
  if (!Array.isArray(alternatives) || alternatives.length === 0) return undefined;
  if (!alternatives.every((each): each is JsonObject => isObject(each) && "const" in each)) return undefined;
  return alternatives.map((each) => ({ value: each["const"] ?? null, label: text(each["title"]) || shown(each["const"] ?? null) }));
}

function options(values: readonly Json[]): Field["options"] {
  return values.map((value) => ({ value, label: shown(value) }));
}

function shown(value: Json): string {
  return shownName(typeof value === "string" ? value : JSON.stringify(value), MAX_LABEL);
}

function isLong(schema: JsonObject): boolean {
  const limit = number(schema["maxLength"]);
  return schema["contentMediaType"] !== undefined || (schema["format"] === undefined && limit !== undefined && limit > LONG) || schema["format"] === "textarea";
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? shownName(value, MAX_LABEL) : "";
}

function number(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}
