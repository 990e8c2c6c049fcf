package dev.archon.sdk.agent;

import dev.archon.sdk.types.Message;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** The messages that an attempt has received and its handler has not read yet, in order, each once. For any thread. */
final class Inbox {
  /** Begins the ids of messages that wait for a reply. */
  static final String REPLY_PREFIX = "q-";

  private final Deque<Message> unread = new ArrayDeque<>();
  private final Map<String, Message> replies = new HashMap<>();
  private final Set<Long> seen = new HashSet<>();
  private long readSeq;

  /** Takes a message in. One that has come before is dropped: a new owner of the run sends all of them again. */
  synchronized void put(Message message) {
    if (!seen.add(message.seq())) {
      return;
    }
    if (message.correlationId().startsWith(REPLY_PREFIX)) {
      replies.putIfAbsent(message.correlationId(), message);
    } else {
      unread.add(message);
    }
    notifyAll();
  }

  /** Returns the next message with a number above {@code after}; null if none comes within so many seconds. */
  synchronized Message next(long after, double seconds) throws InterruptedException {
    double end = System.nanoTime() / 1e9 + seconds;
    while (true) {
      while (!unread.isEmpty()) {
        Message message = note(unread.poll());
        if (message.seq() > after) {
          return message;
        }
      }
      if (isOver(end)) {
        return null;
      }
      wait(millis(end));
    }
  }

  /** Returns the first reply to a message; null if none comes within so many seconds. */
  synchronized Message reply(String messageId, double seconds) throws InterruptedException {
    double end = System.nanoTime() / 1e9 + seconds;
    while (!replies.containsKey(messageId)) {
      if (isOver(end)) {
        return null;
      }
      wait(millis(end));
    }
    return note(replies.remove(messageId));
  }

  private static boolean isOver(double end) {
    return System.nanoTime() / 1e9 >= end;
  }

  private static long millis(double end) {
    return Math.max(1, (long) Math.min((end - System.nanoTime() / 1e9) * 1000, 3_600_000));
  }

  private Message note(Message message) {
    readSeq = Math.max(readSeq, message.seq());
    return message;
  }

  /** Returns the highest number of a message that was read. */
  synchronized long readSeq() {
    return readSeq;
  }
}
