package dev.archon.sdk.internal;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import com.google.protobuf.WireFormat;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.common.v1.TaskRef;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** Frames of a session as bytes: a frame is serialised once, and a message is the joined bytes of its frames. */
public final class Frames {
  /** The features of both ends that the smallest member lacks. */
  public static final List<String> FEATURES =
      List.of(
          "cancel", "park", "adopt", "credit", "progress", "record", "drain", "delegate", "budget", "checkpoint", "publish",
          "update_memory", "input", "messages");

  /** The reason of a CancelTask for an attempt that no longer counts, while its task goes on without it. */
  public static final String SUPERSEDED = "superseded";

  /** Frames of a message. */
  public static final int MAX_FRAMES = 10_000;

  /** The soft limit of the size of a message. */
  public static final int SOFT_BATCH_BYTES = 256 * 1024;

  private Frames() {}

  /** Serialises a frame that no channel stamps: about the session, or about a task without a sequence of its own. */
  public static OutgoingFrame encode(AgentFrame frame) {
    byte[] data = frame.toByteArray();
    return new OutgoingFrame(frame.hasTask() ? frame.getTask().getTaskId() : null, lengthField(1, data.length), data);
  }

  /** Returns the content of an AgentFrame whose oneof is the field with this number, without a copy of the message. */
  public static byte[] content(int field, MessageLite message) {
    int size = message.getSerializedSize();
    byte[] key = lengthField(field, size);
    byte[] content = new byte[key.length + size];
    System.arraycopy(key, 0, content, 0, key.length);
    try {
      CodedOutputStream out = CodedOutputStream.newInstance(content, key.length, size);
      message.writeTo(out);
      out.flush();
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return content;
  }

  /** Returns the key and the length of a field with the wire type 2. */
  public static byte[] lengthField(int number, int length) {
    byte[] field =
        new byte[CodedOutputStream.computeTagSize(number) + CodedOutputStream.computeUInt32SizeNoTag(length)];
    CodedOutputStream out = CodedOutputStream.newInstance(field);
    try {
      out.writeTag(number, WireFormat.WIRETYPE_LENGTH_DELIMITED);
      out.writeUInt32NoTag(length);
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return field;
  }

  /** Joins frames into a message. */
  public static byte[] message(List<OutgoingFrame> frames) {
    int size = 0;
    for (OutgoingFrame frame : frames) {
      size += frame.size();
    }
    byte[] message = new byte[size];
    int at = 0;
    for (OutgoingFrame frame : frames) {
      System.arraycopy(frame.head(), 0, message, at, frame.head().length);
      at += frame.head().length;
      System.arraycopy(frame.content(), 0, message, at, frame.content().length);
      at += frame.content().length;
    }
    return message;
  }

  /**
   * Returns the frames of a raw message (field 1, repeated), so that a frame that cannot be decoded does not affect its
   * neighbours. Throws if the bytes are no message at all. Stops after {@code limit + 1} frames.
   */
  public static List<ByteString> split(ByteString message, int limit) throws InvalidProtocolBufferException {
    List<ByteString> frames = new ArrayList<>();
    try {
      CodedInputStream in = message.newCodedInput();
      for (int tag = in.readTag(); tag != 0 && frames.size() <= limit; tag = in.readTag()) {
        if (WireFormat.getTagFieldNumber(tag) == 1 && WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_LENGTH_DELIMITED) {
          frames.add(in.readBytes());
        } else if (WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_START_GROUP || !in.skipField(tag)) {
          throw new InvalidProtocolBufferException("unsupported wire type");
        }
      }
    } catch (InvalidProtocolBufferException malformed) {
      throw malformed;
    } catch (IOException malformed) {
      throw new InvalidProtocolBufferException(malformed);
    }
    return frames;
  }

  /** Returns the task of a frame that cannot be decoded, or null if not even that can be read. */
  public static TaskRef taskOf(ByteString rawFrame) {
    try {
      List<ByteString> parts = split(rawFrame, 0);
      return parts.isEmpty() ? null : TaskRef.parseFrom(parts.get(0));
    } catch (InvalidProtocolBufferException malformed) {
      return null;
    }
  }

  /** Appends a varint field. */
  static void varint(ByteArrayOutputStream out, int number, long value) {
    byte[] field =
        new byte[CodedOutputStream.computeTagSize(number) + CodedOutputStream.computeUInt64SizeNoTag(value)];
    CodedOutputStream coded = CodedOutputStream.newInstance(field);
    try {
      coded.writeUInt64(number, value);
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    out.writeBytes(field);
  }
}
