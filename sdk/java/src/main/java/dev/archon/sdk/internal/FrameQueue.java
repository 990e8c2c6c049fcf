package dev.archon.sdk.internal;

import dev.archon.api.agent.v1.AgentFrame;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Future;

/**
 * The frames that wait to leave on one stream, drained message by message on the loop while the stream is ready.
 *
 * <p>A frame that is alone leaves at once, an ack alone after 20 ms at the latest; on a stream that is busy with several tasks
 * frames wait up to 5 ms for further ones. At most 2,000 droppable frames (progress) wait. All others are bounded by their
 * channels and credit; a peer that lets 50,000 frames or 256 MiB wait does not read, and loses the stream, not its tasks.
 */
public final class FrameQueue {
  private static final double HOLD = 0.005;
  private static final int FULL_LOAD = 4;
  private static final double ACK_WAIT = 0.02;
  private static final int MAX_DROPPABLE = 2_000;
  private static final int MAX_WAITING = 50_000;
  private static final long MAX_WAITING_BYTES = 256L * 1024 * 1024;

  /** The stream that messages leave on. Called by the loop only. */
  public interface Writer {
    /** Returns whether a message would leave now. */
    boolean isReady();

    /** Writes a message. */
    void write(byte[] message);

    /** Ends the stream: the queue is closed and empty. */
    void end();
  }

  private record Entry(OutgoingFrame frame, boolean droppable) {}

  private final Loop loop;
  private final Writer writer;
  private final Deque<Entry> frames = new ArrayDeque<>();
  private int batchBytes = Frames.SOFT_BATCH_BYTES;
  private long bytes;
  private int droppable;
  private boolean ready;
  private boolean pumping;
  private boolean closed;
  private boolean ended;
  private boolean overflowed;
  private Future<?> ackTimer;
  private Future<?> holdTimer;
  private double hold;
  private double leftAt;

  /** Begins empty. */
  public FrameQueue(Loop loop, Writer writer) {
    this.loop = loop;
    this.writer = writer;
  }

  /** Lowers the soft limit of a message's size, for a peer that takes less. */
  public void setBatchBytes(int limit) {
    batchBytes = limit;
  }

  /** Returns the number of frames that wait. */
  public int size() {
    return frames.size();
  }

  /** Returns whether no more frames are taken. */
  public boolean closed() {
    return closed;
  }

  /** Returns whether the peer did not read, so that the frames were dropped. */
  public boolean overflowed() {
    return overflowed;
  }

  /** Queues a frame about the session. */
  public boolean put(AgentFrame frame) {
    return put(Frames.encode(frame), false);
  }

  /** Queues a frame. Returns false if it was dropped: too many wait, or the stream has ended. */
  public boolean put(OutgoingFrame frame, boolean mayDrop) {
    if (closed || (mayDrop && droppable >= MAX_DROPPABLE)) {
      return false;
    }
    if (frames.size() >= MAX_WAITING || bytes > MAX_WAITING_BYTES) {
      overflowed = true;
      frames.clear();
      close();
      return false;
    }
    droppable += mayDrop ? 1 : 0;
    bytes += frame.size();
    frames.add(new Entry(frame, mayDrop));
    if (frame.content().length > 0) {
      ready = true;
      wake();
    } else if (ackTimer == null) {
      ackTimer = loop.schedule(ACK_WAIT, this::acksDue);
    }
    return true;
  }

  private void acksDue() {
    ackTimer = null;
    ready = true;
    pump();
  }

  /** Ends the queue; the stream ends after the frames that wait. */
  public void close() {
    closed = true;
    wake();
  }

  /** Drops what waits: the stream is gone. */
  public void abandon() {
    closed = true;
    ended = true;
    frames.clear();
    Loop.cancel(ackTimer);
    Loop.cancel(holdTimer);
  }

  /** Lets the frames of this turn of the loop share a message. */
  public void wake() {
    if (!pumping) {
      pumping = true;
      loop.execute(this::pump);
    }
  }

  private void pump() {
    pumping = false;
    while (!ended) {
      if (frames.isEmpty()) {
        if (closed) {
          ended = true;
          writer.end();
        }
        return;
      }
      if (!(ready || closed) || !writer.isReady()) {
        return;
      }
      double wait = leftAt + hold - Loop.now();
      if (hold > 0 && wait > 0 && !closed) {
        if (holdTimer == null) {
          holdTimer = loop.schedule(wait, this::held);
        }
        return;
      }
      byte[] message = take();
      leftAt = Loop.now();
      writer.write(message);
    }
  }

  private void held() {
    holdTimer = null;
    hold = 0;
    pump();
  }

  private byte[] take() {
    List<OutgoingFrame> chunks = new ArrayList<>();
    Set<String> tasks = new HashSet<>();
    long room = batchBytes;
    while (!frames.isEmpty() && ((room -= frames.peek().frame.size()) >= 0 || chunks.isEmpty())) {
      Entry entry = frames.poll();
      droppable -= entry.droppable ? 1 : 0;
      bytes -= entry.frame.size();
      chunks.add(entry.frame);
      if (entry.frame.content().length > 0 && entry.frame.taskId() != null) {
        tasks.add(entry.frame.taskId());
      }
    }
    hold = 0;
    if (frames.isEmpty()) {
      ready = false;
      Loop.cancel(ackTimer);
      ackTimer = null;
      double load = Math.min(1.0, tasks.size() / (double) FULL_LOAD);
      hold = tasks.size() < 2 ? 0 : HOLD * load * load;
    }
    return Frames.message(chunks);
  }
}
