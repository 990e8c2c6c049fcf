/** The service of reflection (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md), in both of its versions. */
import { create, fromBinary, toBinary, type DescFile, type DescMessage, type DescService } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";
import {
  ServerReflection,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
} from "./api/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as ServerReflectionAlpha } from "./api/grpc/reflection/v1alpha/reflection_pb.js";
import { asBuffer } from "./grpc.js";
import { endWith, type Service, type StreamHandler } from "./server.js";
import { malformed } from "./status.js";

type Answer = ServerReflectionResponse["messageResponse"];

/** Returns the services of reflection over the given ones. Both versions have the same messages. */
export function reflectionServices(served: readonly DescService[]): Service[] {
  const all = [...served, ServerReflection, ServerReflectionAlpha];
  const files = new Map<string, DescFile>();
  const symbols = new Map<string, DescFile>();
  for (const service of all) addFile(service.file, files, symbols);
  const answer = (request: ServerReflectionRequest): Answer => {
    const asked = request.messageRequest;
    if (asked.case === "listServices") {
      const service = all.map(({ typeName }) => ({ name: typeName })).sort((a, b) => (a.name < b.name ? -1 : 1));
      return create(ServerReflectionResponseSchema, { messageResponse: { case: "listServicesResponse", value: { service } } })
        .messageResponse;
    }
    const file =
      asked.case === "fileByFilename"
        ? files.get(asked.value)
        : asked.case === "fileContainingSymbol"
          ? symbols.get(asked.value)
          : undefined;
    if (file === undefined) {
      const value = { errorCode: status.NOT_FOUND, errorMessage: "no such file, symbol or extension" };
      return create(ServerReflectionResponseSchema, { messageResponse: { case: "errorResponse", value } }).messageResponse;
    }
    const fileDescriptorProto = withDependencies(file).map((each) => toBinary(FileDescriptorProtoSchema, each.proto));
    return create(ServerReflectionResponseSchema, {
      messageResponse: { case: "fileDescriptorResponse", value: { fileDescriptorProto } },
    }).messageResponse;
  };
  const handle: StreamHandler = (stream) => {
    stream.on("data", (bytes: Buffer) => {
      try {
        const request = fromBinary(ServerReflectionRequestSchema, bytes);
        const response = create(ServerReflectionResponseSchema, { validHost: request.host, originalRequest: request });
        response.messageResponse = answer(request);
        stream.write(asBuffer(toBinary(ServerReflectionResponseSchema, response)));
      } catch {
        endWith(stream, malformed());
      }
    });
    stream.on("end", () => stream.end());
  };
  return [ServerReflection, ServerReflectionAlpha].map((descriptor) => ({
    descriptor,
    duplex: { serverReflectionInfo: handle },
  }));
}

function addFile(file: DescFile, files: Map<string, DescFile>, symbols: Map<string, DescFile>): void {
  const name = file.proto.name;
  if (files.has(name)) return;
  files.set(name, file);
  const addMessage = (message: DescMessage): void => {
    symbols.set(message.typeName, file);
    message.nestedMessages.forEach(addMessage);
    for (const each of message.nestedEnums) symbols.set(each.typeName, file);
  };
  file.messages.forEach(addMessage);
  for (const each of file.enums) symbols.set(each.typeName, file);
  for (const service of file.services) {
    symbols.set(service.typeName, file);
    for (const method of service.methods) symbols.set(`${service.typeName}.${method.name}`, file);
  }
  for (const each of file.dependencies) addFile(each, files, symbols);
}

function withDependencies(file: DescFile, found: DescFile[] = []): DescFile[] {
  if (found.includes(file)) return found;
  found.push(file);
  for (const each of file.dependencies) withDependencies(each, found);
  return found;
}
