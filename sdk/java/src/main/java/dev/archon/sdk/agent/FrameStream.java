package dev.archon.sdk.agent;

import dev.archon.sdk.errors.ArchonException;

/** The transport of a session: a stream that an orchestrator has opened, or one that the agent has attached. Used by the loop. */
interface FrameStream {
  /** Returns whether a message would leave now. */
  boolean isReady();

  /** Writes a message. */
  void write(byte[] message);

  /** Ends the stream after what was written: with OK, or with an error unless it is null. */
  void end(ArchonException error);

  /** Breaks the stream off. */
  void abort();

  /** Open has come: the stream is a session. */
  void opened();

  /** Returns whether the agent has opened it: it may wait for Open as long as it likes. */
  boolean isAttached();
}
