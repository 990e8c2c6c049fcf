/** Joins a session to the stream that carries it: one that an orchestrator has opened, or the agent itself. */
import type { ClientDuplexStream, ServerDuplexStream } from "@grpc/grpc-js";
import { create } from "@bufbuild/protobuf";
import { AgentFrameSchema } from "../api/archon/api/agent/v1/session_pb.js";
import { ResourceExhausted } from "../errors.js";
import { encodeFrame, joined } from "../frames.js";
import { asBuffer } from "../grpc.js";
import { endWith } from "../server.js";
import { toFailure } from "../status.js";
import { UNREAD_TIMEOUT } from "./openLimits.js";
import type { AgentSession } from "./session.js";

function overflow(): ResourceExhausted {
  return new ResourceExhausted("the orchestrator does not read its stream", { retryDelayMs: 1_000 });
}

/** Serves a session on a stream that an orchestrator has opened. `ended` is called once. */
export function serveSession(
  session: AgentSession,
  stream: ServerDuplexStream<Buffer, Buffer>,
  ended: () => void,
): void {
  let isOver = false;
  const over = (): void => {
    if (isOver) return;
    isOver = true;
    session.queue.abandon();
    ended();
  };
  let timer: NodeJS.Timeout | undefined;
  session.onStuck = () => {
    breakOff(stream);
    over();
  };
  session.queue.start({
    write: (message) => stream.destroyed || stream.writableEnded || stream.write(asBuffer(message)),
    ended: () => {
      const error = session.queue.overflowed ? overflow() : session.error;
      if (!isOver && !stream.destroyed) {
        if (error === undefined) stream.end();
        else endWith(stream, error);
        timer = setTimeout(() => breakOff(stream), UNREAD_TIMEOUT).unref();
      }
      over();
    },
  });
  stream.on("drain", () => session.queue.resume());
  stream.on("data", (message: Buffer) => session.read(message));
  stream.on("end", () => session.queue.close());
  stream.on("cancelled", over);
  stream.on("error", () => session.queue.close());
  stream.on("close", () => {
    clearTimeout(timer);
    over();
  });
}

/** Breaks a stream off whose last frames are not read: grpc-js would wait for its reader for ever. */
function breakOff(stream: ServerDuplexStream<Buffer, Buffer>): void {
  const inner = (stream as unknown as { call?: { stream?: { destroy?: () => void } } }).call?.stream;
  inner?.destroy?.();
  stream.destroy();
}

/** Serves a session on a stream that the agent has opened. A client cannot end a stream with an error: it sends a failure. */
export function attachSession(session: AgentSession, stream: ClientDuplexStream<Uint8Array, Buffer>): void {
  session.onStuck = () => stream.cancel();
  session.queue.start({
    write: (message) => stream.destroyed || stream.writableEnded || stream.write(message),
    ended: () => {
      const error = session.queue.overflowed ? overflow() : session.error;
      if (stream.destroyed || stream.writableEnded) return;
      if (error !== undefined) {
        const { head, content } = encodeFrame(
          create(AgentFrameSchema, { frame: { case: "failure", value: toFailure(error) } }),
        );
        stream.write(joined(head, content));
      }
      stream.end();
    },
  });
  stream.on("drain", () => session.queue.resume());
  stream.on("data", (message: Buffer) => session.read(message));
}
