package dev.archon.sdk.types;

import com.google.protobuf.ByteString;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import java.util.List;
import java.util.Map;

/**
 * A piece of content of a task, an answer or a question (A2A 1.0, section 4.1.6). {@code filename} is for display, without a
 * path; keys of {@code metadata} are in reverse DNS.
 */
public record Part(Content content, String filename, String mediaType, Map<String, String> metadata) {
  /** What a part holds. */
  public sealed interface Content permits Text, Raw, Url, Json {}

  /** Plain text. */
  public record Text(String text) implements Content {}

  /** Inline bytes; pass larger content by URL. */
  public record Raw(byte[] bytes) implements Content {}

  /** URL of the content. No member of the mesh fetches it unless its handler does so. */
  public record Url(String url) implements Content {}

  /** One JSON value, as text. */
  public record Json(String json) implements Content {}

  /** Copies the metadata. */
  public Part {
    metadata = Map.copyOf(metadata);
  }

  /** Returns a text. */
  public static Part text(String text) {
    return new Part(new Text(text), "", "", Map.of());
  }

  /** Returns a JSON value, which the text is. */
  public static Part json(String json) {
    return new Part(new Json(json), "", Wire.JSON_TYPE, Map.of());
  }

  /** Returns bytes of a media type. */
  public static Part raw(byte[] bytes, String mediaType) {
    return new Part(new Raw(bytes), "", mediaType, Map.of());
  }

  /** Returns content at a URL. */
  public static Part url(String url, String mediaType) {
    return new Part(new Url(url), "", mediaType, Map.of());
  }

  /** Returns this part with a file name. */
  public Part named(String name) {
    return new Part(content, name, mediaType, metadata);
  }

  /** Returns the part as a message. */
  public dev.archon.api.common.v1.Part proto() {
    dev.archon.api.common.v1.Part.Builder message = dev.archon.api.common.v1.Part.newBuilder();
    if (content instanceof Text text) {
      message.setText(Texts.clean(text.text()));
    } else if (content instanceof Json json) {
      message.setDataJson(Texts.clean(json.json()));
    } else if (content instanceof Url url) {
      message.setUrl(Texts.clean(url.url()));
    } else if (content instanceof Raw raw) {
      message.setRaw(ByteString.copyFrom(raw.bytes()));
    }
    message.setFilename(Texts.clean(filename)).setMediaType(Texts.clean(mediaType));
    metadata.forEach((key, value) -> message.putMetadata(Texts.clean(key), Texts.clean(value)));
    return message.build();
  }

  /** Returns the part that a message has. One without content, as of a later version, is an empty text. */
  public static Part of(dev.archon.api.common.v1.Part message) {
    Content content =
        switch (message.getContentCase()) {
          case RAW -> new Raw(message.getRaw().toByteArray());
          case URL -> new Url(message.getUrl());
          case DATA_JSON -> new Json(message.getDataJson());
          default -> new Text(message.getText());
        };
    return new Part(content, message.getFilename(), message.getMediaType(), message.getMetadataMap());
  }

  /** Returns the parts of messages. */
  public static List<Part> of(List<dev.archon.api.common.v1.Part> messages) {
    return messages.stream().map(Part::of).toList();
  }

  /** Returns the messages of parts. */
  public static List<dev.archon.api.common.v1.Part> messages(List<Part> parts) {
    return parts.stream().map(Part::proto).toList();
  }
}
