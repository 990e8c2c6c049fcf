package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.MessageResult;
import dev.archon.api.agent.v1.PeerMessage;
import dev.archon.api.agent.v1.Subscribe;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.MessageType;
import dev.archon.sdk.types.Part;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The messages of one attempt to other agents of its run, and theirs to it. It subscribes on the first call that receives. */
final class Messenger {
  private static final int MAX_BYTES = 64 * 1024;
  private static final int MAX_ID = 256;

  private final AttemptLink link;
  private final Inbox inbox = new Inbox();
  private final Map<String, Integer> numbers = new HashMap<>();
  private Set<String> topics;

  Messenger(AttemptLink link) {
    this.link = link;
  }

  Inbox inbox() {
    return inbox;
  }

  /** Sends a message; returns its id and the number of its event once the journal of the run has it. */
  Sent send(OutgoingMessage outgoing, boolean expectsReply) throws InterruptedException {
    PeerMessage.Builder message =
        PeerMessage.newBuilder()
            .setReceiverId(Texts.clean(outgoing.to()))
            .setMessageTypeValue(outgoing.type().number())
            .addAllContent(Part.messages(List.of(outgoing.content())))
            .setCorrelationId(Texts.clean(outgoing.correlationId()))
            .setExpectsReply(expectsReply);
    int size = message.getContent(0).getSerializedSize();
    if (size > MAX_BYTES) {
      String rule =
          String.format("has %,d bytes, at most %,d are allowed; give large content by URL", size, MAX_BYTES);
      throw ArchonException.invalid("content", rule);
    }
    String given = outgoing.messageId();
    if (Texts.characters(given) > MAX_ID) {
      throw ArchonException.invalid("message_id", "has more than " + MAX_ID + " characters");
    }
    String own = given.isEmpty() ? id(message.build()) : (expectsReply ? Inbox.REPLY_PREFIX : "") + given;
    message.setMessageId(Texts.clean(own));
    if (outgoing.ttl().isPresent()) {
      double ttl = outgoing.ttl().getAsDouble();
      if (!(ttl > 0)) {
        throw ArchonException.invalid("ttl", "is " + ttl + " s, and must be above 0");
      }
      message.setTtl(Wire.duration(ttl));
    }
    MessageResult result = Waits.await(link.sendMessage(message.build()));
    if (result.hasFailure()) {
      throw Failures.fromFailure(result.getFailure());
    }
    return new Sent(message.getMessageId(), result.getSeq());
  }

  /** Returns the id of the n-th message that is equal to this one: a later attempt gives the same message the same id. */
  private synchronized String id(PeerMessage message) {
    try {
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(message.toByteArray());
      String digest = HexFormat.of().formatHex(hash).substring(0, 32);
      int number = numbers.merge(digest, 1, Integer::sum);
      return (message.getExpectsReply() ? Inbox.REPLY_PREFIX : "") + digest + "." + number;
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Subscribes to the messages for this task, and to topics. */
  void subscribe(List<String> wanted) throws InterruptedException {
    for (String topic : wanted) {
      if (!isTopic(topic)) {
        throw ArchonException.invalid("topics", "must be `broadcast` or `type:TYPE`, and not '" + topic + "'");
      }
    }
    List<String> fresh;
    synchronized (this) {
      fresh = new ArrayList<>(new LinkedHashSet<>(wanted));
      if (topics != null) {
        fresh.removeAll(topics);
        if (fresh.isEmpty()) {
          return;
        }
      }
    }
    link.subscribe(Subscribe.newBuilder().addAllTopics(fresh).build());
    synchronized (this) {
      topics = topics == null ? new LinkedHashSet<>() : topics;
      topics.addAll(fresh);
    }
  }

  private static boolean isTopic(String topic) {
    if (topic.equals("broadcast")) {
      return true;
    }
    for (MessageType type : MessageType.values()) {
      if (topic.equals(type.topic())) {
        return true;
      }
    }
    return false;
  }

  /** Takes in a message of the contract. */
  void receive(PeerMessage message) {
    inbox.put(Message.of(message));
  }
}
