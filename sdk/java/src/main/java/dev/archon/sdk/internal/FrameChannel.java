package dev.archon.sdk.internal;

import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.io.ByteArrayOutputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** Both directions of one (task, attempt), seen from the agent's end. Used by one thread. */
public final class FrameChannel {
  /** Bytes that a frame may take beside its task and its content: sequence, ack and framing. */
  public static final int MAX_FRAME_OVERHEAD = 64;

  /** The action for a received frame. */
  public enum Verdict {
    APPLY,
    DUPLICATE,
    GAP
  }

  private record Kept(long sequence, byte[] data) {}

  private TaskRef ref;
  private byte[] refBytes;
  private long received;
  private long sent;
  private long pendingBytes;
  private boolean ackOwed;
  private final Deque<Kept> unacked = new ArrayDeque<>();

  /** Begins with a reference to the attempt. */
  public FrameChannel(TaskRef ref) {
    setRef(ref);
  }

  private void setRef(TaskRef value) {
    ref = value;
    byte[] data = value.toByteArray();
    byte[] head = Frames.lengthField(1, data.length);
    refBytes = new byte[head.length + data.length];
    System.arraycopy(head, 0, refBytes, 0, head.length);
    System.arraycopy(data, 0, refBytes, head.length, data.length);
  }

  /** Returns the reference, under the current epoch. */
  public TaskRef ref() {
    return ref;
  }

  /** Moves the attempt to another epoch. */
  public void setEpoch(long epoch) {
    if (epoch != ref.getEpoch()) {
      setRef(ref.toBuilder().setEpoch(epoch).build());
    }
  }

  /** Returns the last sequence that was received, which an agent acks at once. */
  public long received() {
    return received;
  }

  /** Returns whether an ack waits for a frame to carry it. */
  public boolean ackOwed() {
    return ackOwed;
  }

  /** Returns the bytes of content that are kept until they are acked. */
  public long pendingBytes() {
    return pendingBytes;
  }

  /** Returns whether the peer has not acked every sequenced frame. */
  public boolean hasUnacked() {
    return !unacked.isEmpty();
  }

  /** Stamps a frame; a sequenced one gets the next sequence and is kept until it is acked. */
  public OutgoingFrame stamp(byte[] content, boolean sequenced) {
    long sequence = 0;
    if (sequenced) {
      sequence = ++sent;
      unacked.add(new Kept(sequence, content));
      pendingBytes += content.length;
    }
    ackOwed = false;
    return frame(sequence, content);
  }

  /** Throws FRAME_TOO_LARGE if the peer would not take a frame with this content. */
  public void checkSize(byte[] content, long limit) {
    long size = (long) refBytes.length + content.length;
    if (size + MAX_FRAME_OVERHEAD > limit) {
      String text =
          String.format(
              "a frame of %,d bytes is larger than the %,d that the peer takes; pass large content by URL", size, limit);
      throw ArchonException.of(Reasons.FRAME_TOO_LARGE, text)
          .metadata("size", Long.toString(size))
          .metadata("limit", Long.toString(limit))
          .metadata("task_id", ref.getTaskId())
          .build();
    }
  }

  /** Judges the sequence of an incoming frame; a frame to be applied counts as received. */
  public Verdict take(long sequence) {
    if (sequence > received + 1) {
      return Verdict.GAP;
    }
    ackOwed = true;
    if (sequence <= received) {
      return Verdict.DUPLICATE;
    }
    received = sequence;
    return Verdict.APPLY;
  }

  /** Forgets the frames up to a sequence: the peer has applied them. */
  public void acked(long sequence) {
    while (!unacked.isEmpty() && unacked.peek().sequence <= sequence) {
      pendingBytes -= unacked.poll().data.length;
    }
  }

  /** Returns the frames to send again, in order, with the ack and the epoch as of now. */
  public List<OutgoingFrame> unacked() {
    List<OutgoingFrame> frames = new ArrayList<>(unacked.size());
    for (Kept kept : unacked) {
      frames.add(frame(kept.sequence, kept.data));
    }
    return frames;
  }

  private OutgoingFrame frame(long sequence, byte[] data) {
    ByteArrayOutputStream stamp = new ByteArrayOutputStream(refBytes.length + 20);
    stamp.writeBytes(refBytes);
    if (sequence != 0) {
      Frames.varint(stamp, 2, sequence);
    }
    if (received != 0) {
      Frames.varint(stamp, 3, received);
    }
    ByteArrayOutputStream head = new ByteArrayOutputStream(stamp.size() + 8);
    head.writeBytes(Frames.lengthField(1, stamp.size() + data.length));
    head.writeBytes(stamp.toByteArray());
    return new OutgoingFrame(ref.getTaskId(), head.toByteArray(), data);
  }
}
