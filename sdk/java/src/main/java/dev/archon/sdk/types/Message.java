package dev.archon.sdk.types;

import dev.archon.api.agent.v1.PeerMessage;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import java.util.List;
import java.util.OptionalDouble;

/**
 * A message from one agent to another, or to all subscribers of a topic if {@code receiverId} is empty. {@code sendTime} is in
 * seconds since the Unix epoch, {@code seq} the number of the event that holds it, 0 outside of a run. The mesh sets the sender.
 */
public record Message(
    String messageId,
    String senderId,
    String receiverId,
    MessageType type,
    List<Part> parts,
    double sendTime,
    String correlationId,
    String senderTaskId,
    OptionalDouble ttl,
    long seq) {
  /** Copies the parts. */
  public Message {
    parts = List.copyOf(parts);
  }

  /** Returns the content as text; JSON if it is not a text. */
  public String text() {
    StringBuilder text = new StringBuilder();
    for (Part part : parts) {
      String piece =
          part.content() instanceof Part.Text plain
              ? plain.text()
              : part.content() instanceof Part.Json json ? json.json() : "";
      text.append(text.length() == 0 ? "" : "\n").append(piece);
    }
    return text.toString();
  }

  /** Returns the message of the contract as a value. */
  public static Message of(PeerMessage message) {
    return new Message(
        message.getMessageId(),
        message.getSenderId(),
        message.getReceiverId(),
        MessageType.of(message.getMessageTypeValue()),
        Part.of(message.getContentList()),
        Wire.seconds(message.getSendTime()),
        message.getCorrelationId(),
        message.getSenderTaskId(),
        message.hasTtl() ? OptionalDouble.of(Wire.seconds(message.getTtl())) : OptionalDouble.empty(),
        message.getSeq());
  }

  /** Returns the message as one of the contract. */
  public PeerMessage proto() {
    PeerMessage.Builder message =
        PeerMessage.newBuilder()
            .setMessageId(Texts.clean(messageId))
            .setSenderId(senderId)
            .setReceiverId(Texts.clean(receiverId))
            .setMessageTypeValue(type.number())
            .addAllContent(Part.messages(parts))
            .setCorrelationId(Texts.clean(correlationId))
            .setSenderTaskId(senderTaskId)
            .setSeq(seq);
    if (sendTime > 0) {
      message.setSendTime(Wire.timestamp(sendTime));
    }
    ttl.ifPresent(seconds -> message.setTtl(Wire.duration(seconds)));
    return message.build();
  }
}
