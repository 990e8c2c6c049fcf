package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.DeliverRequest;
import dev.archon.api.agent.v1.DeliverResponse;
import dev.archon.api.agent.v1.PeerMessage;
import dev.archon.sdk.channel.Principal;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.MessageType;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Messages that other instances deliver directly, outside of any run. They are handed to the handler one after the other, and do not
 * survive the process. For any thread.
 */
final class DirectInbox {
  private static final int MAX_WAITING = 1_000;
  private static final long MAX_WAITING_BYTES = 8L * 1024 * 1024;
  private static final int MAX_PER_CALL = 100;
  private static final int MAX_REMEMBERED = 10_000;
  private static final int MAX_ID = 256;
  private static final int MAX_BYTES = 64 * 1024;

  private record Waiting(Message message, double until, int size) {}

  private record Remembered(DeliverRequest request, DeliverResponse response) {}

  private final String role;
  private final Map<String, String> types;
  private final Consumer<Message> handler;
  private final Thread thread;
  private final Deque<Waiting> waiting = new ArrayDeque<>();
  private final Map<String, Remembered> requests = new LinkedHashMap<>();
  private long bytes;

  DirectInbox(String role, Map<String, String> types, Consumer<Message> handler) {
    this.role = role;
    this.types = types;
    this.handler = handler;
    thread = new Thread(this::handOver, "archon-direct-messages");
    thread.setDaemon(true);
  }

  void start() {
    if (handler != null) {
      thread.start();
    }
  }

  void close() throws InterruptedException {
    thread.interrupt();
    thread.join(1_000);
  }

  /**
   * Takes in the messages of a call; their sender is the caller, empty if it has no credentials. Throws NOT_SERVED without a handler,
   * INVALID_ARGUMENT, REQUEST_ID_REUSED, MESSAGE_NOT_ALLOWED, and RESOURCE_EXHAUSTED if too many wait.
   */
  synchronized DeliverResponse deliver(DeliverRequest request, Principal caller) {
    if (handler == null) {
      throw ArchonException.of(Reasons.NOT_SERVED, role + " takes no messages from other instances").build();
    }
    String sender = caller == null ? "" : caller.kind() == Principal.Kind.AGENT ? caller.name() : caller.identity();
    String key = sender + "\0" + request.getRequestId();
    Remembered known = requests.get(key);
    if (known != null) {
      if (!known.request.equals(request)) {
        String text = "the request id '" + request.getRequestId() + "' came before with other messages";
        throw ArchonException.of(Reasons.REQUEST_ID_REUSED, text).build();
      }
      return known.response;
    }
    check(request);
    List<Message> messages = new ArrayList<>();
    double now = System.currentTimeMillis() / 1000.0;
    for (PeerMessage given : request.getMessagesList()) {
      checkProfile(MessageType.of(given.getMessageTypeValue()).label(), sender);
      PeerMessage.Builder own = given.toBuilder().setSenderId(sender).setSenderTaskId("").setSeq(0);
      messages.add(Message.of(own.setSendTime(Wire.timestamp(now)).build()));
    }
    if (waiting.size() + messages.size() > MAX_WAITING || bytes + request.getSerializedSize() > MAX_WAITING_BYTES) {
      String text = waiting.size() + " messages wait for " + role;
      throw ArchonException.of(Reasons.RESOURCE_EXHAUSTED, text).retryDelay(1.0).build();
    }
    DeliverResponse.Builder response = DeliverResponse.newBuilder();
    for (int at = 0; at < messages.size(); at++) {
      Message message = messages.get(at);
      int size = request.getMessages(at).getSerializedSize();
      waiting.add(new Waiting(message, now + message.ttl().orElse(Double.MAX_VALUE), size));
      bytes += size;
      response.addAcceptedMessageIds(message.messageId());
    }
    requests.put(key, new Remembered(request, response.build()));
    if (requests.size() > MAX_REMEMBERED) {
      requests.remove(requests.keySet().iterator().next());
    }
    notifyAll();
    return response.build();
  }

  private static void check(DeliverRequest request) {
    ArchonException.Builder error = ArchonException.of(Reasons.INVALID_ARGUMENT, "the messages cannot be delivered");
    boolean isFaulty = false;
    String needed = "needs 1 to " + MAX_ID + " characters";
    if (request.getRequestId().isEmpty() || Texts.characters(request.getRequestId()) > MAX_ID) {
      error.violation("request_id", needed);
      isFaulty = true;
    }
    if (request.getMessagesCount() < 1 || request.getMessagesCount() > MAX_PER_CALL) {
      error.violation("messages", "needs 1 to " + MAX_PER_CALL + " messages");
      isFaulty = true;
    }
    for (int at = 0; at < Math.min(MAX_PER_CALL, request.getMessagesCount()); at++) {
      PeerMessage message = request.getMessages(at);
      if (message.getMessageId().isEmpty() || Texts.characters(message.getMessageId()) > MAX_ID) {
        error.violation("messages[" + at + "].message_id", needed);
        isFaulty = true;
      }
      if (message.getContentList().stream().mapToInt(part -> part.getSerializedSize()).sum() > MAX_BYTES) {
        error.violation("messages[" + at + "].content", String.format("has more than %,d bytes", MAX_BYTES));
        isFaulty = true;
      }
    }
    if (isFaulty) {
      throw error.build();
    }
  }

  private void checkProfile(String type, String sender) {
    if (types.isEmpty()) {
      return;
    }
    List<String> roles =
        Arrays.stream(types.getOrDefault(type, "").split(",")).map(String::strip).filter(name -> !name.isEmpty()).toList();
    if (!types.containsKey(type) || (!roles.isEmpty() && !roles.contains(sender))) {
      String with = sender.isEmpty() ? "a sender without credentials" : sender;
      String text = "the profile of " + role + " does not allow messages of the type " + type + " with " + with;
      throw ArchonException.of(Reasons.MESSAGE_NOT_ALLOWED, text).build();
    }
  }

  private void handOver() {
    try {
      while (true) {
        Waiting next;
        synchronized (this) {
          while (waiting.isEmpty()) {
            wait();
          }
          next = waiting.poll();
          bytes -= next.size;
        }
        if (System.currentTimeMillis() / 1000.0 < next.until) {
          handle(next.message);
        }
      }
    } catch (InterruptedException closed) {
      System.getLogger("dev.archon.sdk").log(System.Logger.Level.TRACE, "direct messages are not taken any more");
    }
  }

  private void handle(Message message) {
    try {
      handler.accept(message);
    } catch (RuntimeException fault) { // costs its message alone
      System.getLogger("dev.archon.sdk").log(System.Logger.Level.ERROR, "the handler of direct messages failed", fault);
    }
  }
}
