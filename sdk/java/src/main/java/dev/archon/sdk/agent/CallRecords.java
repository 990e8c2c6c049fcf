package dev.archon.sdk.agent;

import com.google.gson.JsonObject;
import dev.archon.api.agent.v1.CallRecord;
import dev.archon.api.agent.v1.RecordKind;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Records of model and tool calls, with the mode of ARCHON_RECORDS: full, redacted or off. */
final class CallRecords {
  private static final int MAX_BYTES = 1024 * 1024;
  private static final byte[] KEY = new byte[32];

  static {
    new SecureRandom().nextBytes(KEY);
  }

  private CallRecords() {}

  static boolean isOff() {
    return "off".equals(System.getenv("ARCHON_RECORDS"));
  }

  private static boolean isRedacted() {
    String mode = System.getenv("ARCHON_RECORDS");
    return mode != null && !mode.isEmpty() && !mode.equals("full"); // an unknown value may be meant to hide something
  }

  static CallRecord.Builder of(
      RecordKind kind, String target, String requestJson, String responseJson, double started, double seconds) {
    return CallRecord.newBuilder()
        .setKind(kind)
        .setTarget(Texts.clean(target))
        .setRequestJson(recorded(requestJson))
        .setResponseJson(recorded(responseJson))
        .setStartTime(Wire.timestamp(started))
        .setDuration(Wire.duration(seconds));
  }

  private static String recorded(String json) {
    String text = isRedacted() ? redacted(json) : Texts.clean(json);
    int size = Texts.bytes(text);
    return size <= MAX_BYTES ? text : leftOut(size);
  }

  private static String redacted(String text) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(KEY, "HmacSHA256"));
      String hash = HexFormat.of().formatHex(mac.doFinal(text.getBytes(StandardCharsets.UTF_8))).substring(0, 16);
      int characters = Texts.characters(text);
      JsonObject facts = new JsonObject();
      facts.addProperty("chars", characters);
      facts.addProperty("tokens", (characters + 3) / 4);
      facts.addProperty("hash", hash);
      JsonObject substitute = new JsonObject();
      substitute.add("redacted", facts);
      return substitute.toString();
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Returns a copy without request and response, for a record that does not fit in a frame. */
  static CallRecord withoutPayload(CallRecord record) {
    return record.toBuilder()
        .setRequestJson(leftOut(Texts.bytes(record.getRequestJson())))
        .setResponseJson(leftOut(Texts.bytes(record.getResponseJson())))
        .build();
  }

  private static String leftOut(int size) {
    return "{\"archon.dev/left-out\": \"" + size + " bytes, too large to record\"}";
  }
}
