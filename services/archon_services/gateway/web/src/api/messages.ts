/**
 * The messages of the mesh and their JSON form (https://protobuf.dev/programming-guides/json/), which is all that a browser
 * sends and reads. Messages are the objects of @bufbuild/protobuf, whose types the page uses: a test compares both. Its binary
 * form, extensions and reflection are most of that library, and nothing here needs them.
 */
import text from "virtual:types";
import { durationOf, durationText, timeOf, timeText, type Span } from "./times.js";

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
type Fields = Record<string, unknown>;

/** A message or an enum, by its full name. */
export interface Schema {
  readonly typeName: string;
}

interface Field {
  readonly name: string;
  /** `s` string, `b` bytes, `o` bool, `n` number, `l` 64 bits, or the full name of a type. */
  readonly type: string;
  readonly shape: "one" | "list" | "map";
  /** Whether a value of zero is not the same as none. */
  readonly optional: boolean;
  readonly oneof: string;
}

export const DURATION = "google.protobuf.Duration";
export const TIMESTAMP = "google.protobuf.Timestamp";
const ZEROS: Readonly<Record<string, unknown>> = { s: "", o: false, n: 0, l: 0n };

const lines = new Map<string, string>();
const fields = new Map<string, readonly Field[]>();
const enums = new Map<string, Record<string, string | number>>();

/** The lines of the build: `@` and a package, then its types. */
for (const section of text.split("@")) {
  const [packageName = "", ...types] = section.split("\n");
  for (const line of types) {
    const at = line.indexOf(" ");
    lines.set(`${packageName}.${at < 0 ? line : line.slice(0, at)}`, `${packageName} ${at < 0 ? "" : line.slice(at + 1)}`);
  }
}
fields.set(DURATION, fieldsOf(DURATION, "google.protobuf seconds:l nanos:n"));
fields.set(TIMESTAMP, fieldsOf(TIMESTAMP, "google.protobuf seconds:l nanos:n"));

function fieldsOf(type: string, line = lines.get(type)): readonly Field[] {
  const known = fields.get(type);
  if (known) return known;
  const [packageName = "", ...words] = (line ?? "").split(" ");
  if (line === undefined) throw new Error(`the page has no type ${type}`);
  const found = words.filter(Boolean).map((word): Field => {
    const [, name = "", map, kind = "s", mark, oneof = ""] = /^(\w+)(?::(\{?)([\w.]+))?([*?]?)(?:\/(\w+))?$/.exec(word) ?? [];
    const whole = kind.startsWith(".") ? kind.slice(1) : kind.length > 1 ? `${packageName}.${kind}` : kind;
    return { name, type: whole, shape: map ? "map" : mark === "*" ? "list" : "one", optional: mark === "?", oneof };
  });
  fields.set(type, found);
  return found;
}

/** Returns the values of an enum by name, and their names by number; undefined if the type is a message. */
function enumOf(type: string): Record<string, string | number> | undefined {
  const known = enums.get(type);
  const [, mark, prefix = "", ...words] = known ? [] : (lines.get(type) ?? "").split(" ");
  if (known || mark !== "=") return known;
  const values: Record<string, string | number> = {};
  let last = -1;
  for (const word of words) {
    const [name = "", number] = word.split("=");
    last = number === undefined ? last + 1 : Number(number);
    values[prefix.slice(1) + name] = last;
    values[last] ??= prefix.slice(1) + name;
  }
  enums.set(type, values);
  return values;
}

/** Returns an enum as its stub has it: without the prefix of its values. */
export function enumObject(type: string): Record<string, string | number> {
  const prefix = (lines.get(type) ?? "").split(" ")[2]?.length ?? 1;
  const short = (value: string | number): string | number => (typeof value === "string" ? value.slice(prefix - 1) : value);
  return Object.fromEntries(Object.entries(enumOf(type) ?? {}).map(([key, value]) => [typeof value === "string" ? key : short(key), short(value)]));
}

/** Returns a message with these fields; those that are not given are empty. */
export function create({ typeName }: Schema, init: object = {}): Fields {
  const given = init as Fields;
  if (given["$typeName"] === typeName) return given;
  const message: Fields = { $typeName: typeName };
  for (const { name, type, shape, optional, oneof } of fieldsOf(typeName)) {
    const made = (value: unknown): unknown => (type.length > 1 && typeof value === "object" ? create({ typeName: type }, value ?? {}) : value);
    const value = given[name];
    if (oneof !== "") {
      message[oneof] ??= { case: undefined };
      const chosen = given[oneof] as { case?: string; value?: unknown } | undefined;
      if (chosen?.case === name) message[oneof] = { case: name, value: made(chosen.value) };
    } else if (shape === "list") message[name] = ((value ?? []) as unknown[]).map(made);
    else if (shape === "map") message[name] = mapped((value ?? {}) as Fields, made);
    else if (value !== undefined && value !== null) message[name] = made(value);
    else if (!optional) {
      const zero = type === "b" ? new Uint8Array(0) : type.length === 1 ? ZEROS[type] : enumOf(type) && 0;
      if (zero !== undefined) message[name] = zero;
    }
  }
  return message;
}

/** Returns the message of a JSON value; fields and values of enums that are not known are left out. Throws an Error if it is none. */
export function fromJson({ typeName }: Schema, json: Json): Fields {
  if (typeName === DURATION || typeName === TIMESTAMP) {
    if (typeof json !== "string") throw new Error(`${JSON.stringify(json)} is no ${typeName}`);
    return { $typeName: typeName, ...(typeName === DURATION ? durationOf(json) : timeOf(json)) };
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Error(`${JSON.stringify(json)} is no ${typeName}`);
  const given = json as Readonly<Record<string, Json>>;
  const init: Fields = {};
  for (const { name, type, shape, oneof } of fieldsOf(typeName)) {
    const value = given[name];
    if (value === undefined || value === null) continue;
    const read = (each: Json): unknown => valueOf(type, each);
    if (shape === "list") init[name] = (value as readonly Json[]).map(read).filter((each) => each !== undefined);
    else if (shape === "map") init[name] = mapped(value as Readonly<Record<string, Json>>, read);
    else if (oneof !== "") init[oneof] = { case: name, value: read(value) };
    else init[name] = read(value);
  }
  return create({ typeName }, init);
}

function valueOf(type: string, json: Json): unknown {
  if (type === "l") return BigInt(json as string | number);
  if (type === "n") return Number(json);
  if (type === "b") return Uint8Array.from(atob((json as string).replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  if (type.length === 1) return json;
  const values = enumOf(type);
  if (values) return typeof json === "number" ? json : values[json as string];
  return fromJson({ typeName: type }, json);
}

/** Returns the JSON value of a message. */
export function toJson({ typeName }: Schema, message: object): Json {
  if (typeName === DURATION) return durationText(message as Span);
  if (typeName === TIMESTAMP) return timeText(message as Span);
  const json: Record<string, Json> = {};
  for (const { name, type, shape, optional, oneof } of fieldsOf(typeName)) {
    const chosen = oneof === "" ? undefined : ((message as Fields)[oneof] as { case?: string; value?: unknown });
    const value = chosen === undefined ? (message as Fields)[name] : chosen.case === name ? chosen.value : undefined;
    if (value === undefined || (chosen === undefined && !optional && isEmpty(value))) continue;
    const written = (each: unknown): Json => jsonOf(type, each);
    json[name] = shape === "list" ? (value as unknown[]).map(written) : shape === "map" ? (mapped(value as Fields, written) as Record<string, Json>) : written(value);
  }
  return json;
}

function isEmpty(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return !value && !Object.is(value, -0) && !Number.isNaN(value);
  return Array.isArray(value) || value instanceof Uint8Array ? value.length === 0 : !("$typeName" in value) && Object.keys(value).length === 0;
}

function jsonOf(type: string, value: unknown): Json {
  if (type === "l") return String(value);
  if (type === "n") return Number.isFinite(value) ? (value as number) : String(value);
  if (type === "b") return btoa(Array.from(value as Uint8Array, (byte) => String.fromCharCode(byte)).join(""));
  if (type.length === 1) return value as Json;
  const values = enumOf(type);
  if (values) return values[value as number] ?? (value as number);
  return toJson({ typeName: type }, value as object);
}

/** Returns an object with the same keys and other values. */
function mapped<V>(values: Readonly<Record<string, V>>, change: (value: V) => unknown): Fields {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value)]).filter(([, value]) => value !== undefined));
}
