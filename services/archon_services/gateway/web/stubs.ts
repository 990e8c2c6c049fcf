/**
 * The stubs of the page while it is built: of the messages that `src/api/rpcs.ts` needs alone, as one short text that
 * `src/api/messages.ts` reads. Those of sdk/typescript have whole files, in base64, which gzip hardly makes smaller.
 */
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, type DescriptorProto, type EnumDescriptorProto, type FieldDescriptorProto, type FileDescriptorProto, type ServiceDescriptorProto } from "@bufbuild/protobuf/wkt";
import type { Plugin } from "vite";

const TYPES = "virtual:types";
/** Enums with many values, of which the page shows the names as they are in JSON, and has no numbers. */
const NAMES_ALONE: ReadonlySet<string> = new Set(["archon.api.common.v1.ErrorReason"]);
const TYPE_MESSAGE = 11;
const TYPE_ENUM = 14;
const LABEL_REPEATED = 3;
/** The letters of `messages.ts` by the numbers of types in descriptors. */
const LETTERS: Readonly<Record<number, string>> = { 1: "n", 2: "n", 3: "l", 4: "l", 5: "n", 6: "l", 7: "n", 8: "o", 9: "s", 12: "b", 13: "n", 15: "n", 16: "l", 17: "n", 18: "l" };

export type Rpcs = Readonly<Record<string, readonly string[]>>;

/** `folder` has the stubs, `runtime` is `src/api/messages.ts`. */
export function shortStubs(folder: string, runtime: string, rpcs: Rpcs, messages: readonly string[]): Plugin {
  const files = descriptors(folder);
  return {
    name: "archon-short-stubs",
    enforce: "pre",
    resolveId: (id) => (id === TYPES ? `\0${TYPES}` : undefined),
    load(id) {
      if (id === `\0${TYPES}`) return `export default ${JSON.stringify(typesText([...files.values()], rpcs, messages))};`;
      if (!id.startsWith(folder) || !id.endsWith("_pb.ts")) return undefined;
      const file = files.get(relative(folder, id));
      return { code: file ? stubOf(file, runtime) : "", moduleType: "js", map: null };
    },
  };
}

/** Returns the descriptors of stubs by their paths in the folder. */
export function descriptors(folder: string): ReadonlyMap<string, FileDescriptorProto> {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith("_pb.ts"));
  return new Map(
    paths.sort().map((path) => {
      const [, encoded] = /fileDesc\("([^"]+)"/.exec(readFileSync(join(folder, path), "utf8")) ?? [];
      if (encoded === undefined) throw new Error(`${path} has no descriptor`);
      return [path, fromBinary(FileDescriptorProtoSchema, Buffer.from(encoded, "base64"))];
    }),
  );
}

/** Returns the types that RPCs and messages consist of: a line `@` with each package, then one for each type. Throws an Error if one does not exist. */
export function typesText(files: readonly FileDescriptorProto[], rpcs: Rpcs, messages: readonly string[]): string {
  const types = new Map<string, DescriptorProto | undefined>();
  const scopes = new Map<string, string>();
  const lines = new Map<string, string>();
  const add = (scope: string, name: string, line: string, message?: DescriptorProto): void => {
    types.set(`${scope}.${name}`, message);
    scopes.set(`${scope}.${name}`, scope);
    lines.set(`${scope}.${name}`, line);
  };
  for (const file of files) {
    for (const [name, message] of file.messageType.flatMap((each) => withNested(each, ""))) add(file.package, name, messageLine(name, message, file.package), message);
    for (const each of file.enumType) if (!NAMES_ALONE.has(`${file.package}.${each.name}`)) add(file.package, each.name, enumLine(each));
  }
  const kept = new Set<string>();
  const keep = (type: string): void => {
    if (kept.has(type) || type.startsWith("google.protobuf.") || NAMES_ALONE.has(type)) return;
    if (!types.has(type)) throw new Error(`src/api/rpcs.ts: there is no ${type}`);
    kept.add(type);
    const message = types.get(type);
    for (const field of message?.field ?? []) {
      const entry = entryOf(message, field);
      for (const each of entry ? entry.field : [field]) if (each.typeName !== "") keep(each.typeName.slice(1));
    }
  };
  for (const type of messages) keep(type);
  for (const [service, methods] of Object.entries(rpcs)) for (const method of methods) methodTypes(files, service, method).forEach(keep);
  const packages = [...new Set([...kept].map((type) => scopes.get(type) ?? ""))].sort();
  return packages.map((scope) => [scope, ...[...kept].filter((type) => scopes.get(type) === scope).sort().map((type) => lines.get(type))].join("\n")).join("@");
}

/** Returns the request and the response of an RPC, whose names `calls.ts` makes of the RPC's. */
function methodTypes(files: readonly FileDescriptorProto[], service: string, method: string): readonly string[] {
  const inside = files.find((file) => file.service.some((each) => `${file.package}.${each.name}` === service));
  const found = inside?.service.flatMap((each: ServiceDescriptorProto) => each.method).find((each) => each.name === method.slice(0, 1).toUpperCase() + method.slice(1));
  if (!inside || !found) throw new Error(`src/api/rpcs.ts: ${service} has no ${method}`);
  const types = [found.inputType.slice(1), found.outputType.slice(1)];
  if (types.join() !== `${inside.package}.${found.name}Request,${inside.package}.${found.name}Response`) throw new Error(`${found.name} has messages of other names`);
  return types;
}

function withNested(message: DescriptorProto, outer: string): [string, DescriptorProto][] {
  const name = outer + message.name;
  return message.options?.mapEntry ? [] : [[name, message], ...message.nestedType.flatMap((each) => withNested(each, `${name}.`))];
}

function entryOf(message: DescriptorProto | undefined, field: FieldDescriptorProto): DescriptorProto | undefined {
  return message?.nestedType.find((each) => each.options?.mapEntry && field.typeName.endsWith(`.${message.name}.${each.name}`));
}

function messageLine(name: string, message: DescriptorProto, scope: string): string {
  const fields = message.field.map((field) => {
    const entry = entryOf(message, field);
    const value = entry?.field[1] ?? field;
    const named = (value.type === TYPE_MESSAGE || value.type === TYPE_ENUM) && !NAMES_ALONE.has(value.typeName.slice(1));
    const own = value.typeName.startsWith(`.${scope}.`) ? value.typeName.slice(scope.length + 2) : value.typeName;
    const type = named ? (own.length === 1 ? value.typeName : own) : value.type === TYPE_ENUM ? "s" : LETTERS[value.type];
    if (type === undefined) throw new Error(`${name}.${field.name} has a type that messages.ts does not know`);
    const mark = entry ? "" : field.label === LABEL_REPEATED ? "*" : field.proto3Optional ? "?" : "";
    const oneof = Object.hasOwn(field, "oneofIndex") && !field.proto3Optional ? `/${camelCase(message.oneofDecl[field.oneofIndex]?.name ?? "")}` : "";
    if (field.jsonName !== "" && field.jsonName !== camelCase(field.name)) throw new Error(`${name}.${field.name} has another name in JSON`);
    return `${camelCase(field.name)}${type === "s" && !entry ? "" : `:${entry ? "{" : ""}${type}`}${mark}${oneof}`;
  });
  return [name, ...fields].join(" ");
}

function enumLine({ name, value: values }: EnumDescriptorProto): string {
  const wanted = `${name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toUpperCase()}_`;
  const prefix = values.every((value) => value.name.startsWith(wanted)) ? wanted : "";
  let last = -1;
  const texts = values.map((value) => {
    const number = value.number === last + 1 ? "" : `=${value.number}`;
    last = value.number;
    return value.name.slice(prefix.length) + number;
  });
  return [name, "=", `-${prefix}`, ...texts].join(" ");
}

/** Returns the module of a stub. The SDK asks for the oneofs of one message, for a property that neither the page nor the fold reads. A name that the page does not use is left out by the bundler; a type that is not kept throws where it is used. */
function stubOf(file: FileDescriptorProto, runtime: string): string {
  const schema = (name: string): string => `export const ${name.replaceAll(".", "_")}Schema = { typeName: "${file.package}.${name}", oneofs: [] };`;
  return [
    `import { enumObject } from ${JSON.stringify(runtime)};`,
    ...file.messageType.flatMap((message) => withNested(message, "")).map(([name]) => schema(name)),
    ...file.enumType.map(({ name }) => `export const ${name} = /*@__PURE__*/ enumObject("${file.package}.${name}");`),
    ...file.service.map(({ name }) => `export const ${name} = { typeName: "${file.package}.${name}" };`),
  ].join("\n");
}

/** Returns a name as in JSON: https://protobuf.dev/programming-guides/json/. */
export function camelCase(name: string): string {
  return name.replace(/_+(.)/g, (_, letter: string) => letter.toUpperCase());
}

