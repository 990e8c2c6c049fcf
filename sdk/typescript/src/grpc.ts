/** The bridge from service descriptors of protobuf-es to method definitions of grpc-js. */
import { fromBinary, toBinary, type DescMessage, type DescMethod, type MessageShape } from "@bufbuild/protobuf";
import type { MethodDefinition } from "@grpc/grpc-js";

/** Returns the full name of a method, as it is called. */
export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Returns bytes as a Buffer, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Returns the encoder of a message type. */
export function encoder<D extends DescMessage>(schema: D): (message: MessageShape<D>) => Buffer {
  return (message) => asBuffer(toBinary(schema, message));
}

/** Returns the decoder of a message type. */
export function decoder<D extends DescMessage>(schema: D): (bytes: Buffer) => MessageShape<D> {
  return (bytes) => fromBinary(schema, bytes);
}

const identity = (bytes: Buffer): Buffer => bytes;

/** Returns the definition of a method whose messages are bytes: they are encoded and decoded by this SDK itself. */
export function rawDefinition(method: DescMethod): MethodDefinition<Buffer, Buffer> {
  return {
    path: pathOf(method),
    originalName: method.localName,
    requestStream: method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming",
    responseStream: method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming",
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
}
