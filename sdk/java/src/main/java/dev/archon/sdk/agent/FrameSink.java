package dev.archon.sdk.agent;

import dev.archon.sdk.internal.FrameQueue;
import java.util.Set;

/** Where the frames of an attempt go: the stream of a session, or a single RunTask call. Used by the loop. */
interface FrameSink {
  FrameQueue queue();

  String orchestratorId();

  Set<String> agreed();

  long peerLimit();

  double parkTtl();
}
