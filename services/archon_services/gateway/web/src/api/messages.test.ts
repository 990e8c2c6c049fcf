import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import types from "virtual:types";
// The library itself, in place of which the page has messages.ts.
import * as library from "../../node_modules/@bufbuild/protobuf/dist/esm/index.js";
import type { DescField, DescMessage, FileRegistry } from "../../node_modules/@bufbuild/protobuf/dist/esm/index.js";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema, file_google_protobuf_duration, file_google_protobuf_field_mask, file_google_protobuf_timestamp, type FileDescriptorProto } from "../../node_modules/@bufbuild/protobuf/dist/esm/wkt/index.js";
import { protoCamelCase } from "../../node_modules/@bufbuild/protobuf/dist/esm/reflect/index.js";
import { create, fromJson, toJson, type Json } from "./messages.js";

const STUBS = new URL("../../../../../../sdk/typescript/src/api/archon/", import.meta.url);
const registry = registryOf(
  readdirSync(STUBS, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith("_pb.ts"))
    .map((path) => library.fromBinary(FileDescriptorProtoSchema, Buffer.from(/fileDesc\("([^"]+)"/.exec(readFileSync(new URL(path, STUBS), "utf8"))?.[1] ?? "", "base64"))),
);
const NAMES = types.split("@").flatMap((section) => {
  const [packageName, ...lines] = section.split("\n");
  return lines.filter((line) => !/^\S+ = /.test(line)).map((line) => `${packageName}.${line.split(" ")[0]}`);
});
const MESSAGES = NAMES.map((name) => registry.getMessage(name) as DescMessage);

/** Adds each file after those whose types it uses. */
function registryOf(files: FileDescriptorProto[]): FileRegistry {
  const done = [file_google_protobuf_duration.proto, file_google_protobuf_field_mask.proto, file_google_protobuf_timestamp.proto];
  let left = files;
  for (const message of files.flatMap((file) => file.messageType)) for (const each of [message, ...message.nestedType]) for (const field of each.field) field.jsonName = protoCamelCase(field.name);
  let made = library.createFileRegistry(library.create(FileDescriptorSetSchema, { file: done }));
  while (left.length > 0) {
    const waiting = left.filter((file) => {
      try {
        made = library.createFileRegistry(library.create(FileDescriptorSetSchema, { file: [...done, file] }));
        done.push(file);
        return false;
      } catch {
        return true;
      }
    });
    if (waiting.length === left.length) throw new Error(waiting.map((file) => file.name).join());
    left = waiting;
  }
  return made;
}

/** A JSON value of a message with a value in each field; of each oneof its field with a number. */
function sample(message: DescMessage, arm: number, depth: number): Json {
  if (message.typeName === "google.protobuf.Timestamp") return ["2026-01-02T03:04:05Z", "1960-01-02T03:04:05.006Z", "2026-01-02T03:04:05.123456789Z"][depth % 3] ?? "";
  if (message.typeName === "google.protobuf.Duration") return ["1s", "-3.500s", "0.000000001s"][depth % 3] ?? "";
  const json: Record<string, Json> = {};
  for (const field of message.fields) {
    if (field.oneof && field.oneof.fields[arm % field.oneof.fields.length] !== field) continue;
    const value = sampleOf(field, arm, depth);
    if (value !== undefined) json[field.jsonName] = field.fieldKind === "list" ? [value, value] : field.fieldKind === "map" ? { a: value, b: value } : value;
  }
  return json;
}

function sampleOf(field: DescField, arm: number, depth: number): Json | undefined {
  if (field.message) return depth > 2 ? undefined : sample(field.message, arm, depth + 1);
  if (field.enum) return field.enum.typeName.endsWith(".ErrorReason") ? undefined : (field.enum.values[arm % field.enum.values.length]?.name ?? "");
  switch (field.scalar) {
    case library.ScalarType.STRING: return arm % 2 === 0 ? "é\n🙂" : "";
    case library.ScalarType.BOOL: return arm % 2 === 0;
    case library.ScalarType.BYTES: return arm % 2 === 0 ? "/+8A" : "";
    case library.ScalarType.INT64: case library.ScalarType.UINT64: case library.ScalarType.SINT64: case library.ScalarType.FIXED64: case library.ScalarType.SFIXED64: return arm % 2 === 0 ? "9007199254740993" : "0";
    default: return arm % 3;
  }
}

/** The page has the names of reasons alone, of which an empty one is none. */
function withoutReasons(value: unknown): unknown {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map(withoutReasons);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, (key === "reason" || key === "cause") && each === 0 ? "" : withoutReasons(each)]));
}

/** Numbers of samples: each field of each oneof of a message is in one. */
const armsOf = (message: DescMessage): number[] => Array.from({ length: Math.max(6, ...message.oneofs.map((oneof) => oneof.fields.length)) }, (_, index) => index);

test("there are messages, and the library knows each", () => {
  expect(NAMES.length).toBeGreaterThan(80);
  expect(NAMES.filter((name) => registry.getMessage(name) === undefined)).toEqual([]);
});

test("an empty message is that of the library", () => {
  for (const message of MESSAGES) expect(create(message)).toEqual(withoutReasons(library.create(message)));
});

test("a message of JSON, and its JSON, are those of the library", { timeout: 60_000 }, () => {
  for (const message of MESSAGES)
    for (const arm of armsOf(message)) {
      const json = sample(message, arm, 1);
      const expected = library.fromJson(message, json as library.JsonValue);
      const read = fromJson(message, json);
      expect(read, `${message.typeName} ${arm}`).toEqual(withoutReasons(expected));
      expect(toJson(message, read)).toEqual(library.toJson(message, expected));
      expect(create(message, read)).toBe(read);
    }
});

test("fields and values of enums that are not known are left out", () => {
  const part = { typeName: "archon.api.common.v1.Part" };
  expect(toJson(part, fromJson(part, { text: "x", color: "red", filename: null }))).toEqual({ text: "x" });
  const event = { typeName: "archon.api.orchestrator.v1.RunEvent" };
  expect(toJson(event, fromJson(event, { runState: { state: "TASK_STATE_OF_TOMORROW" } }))).toEqual({ runState: {} });
});

test("a value of another form is refused", () => {
  for (const json of [null, 1, "x", []]) expect(() => fromJson({ typeName: "archon.api.common.v1.Part" }, json)).toThrow("is no archon");
  expect(() => fromJson({ typeName: "google.protobuf.Timestamp" }, "yesterday")).toThrow("is no time");
  expect(() => fromJson({ typeName: "google.protobuf.Duration" }, "1m")).toThrow("is no duration");
  expect(() => create({ typeName: "archon.api.tool.v1.Unknown" })).toThrow("no type");
});
