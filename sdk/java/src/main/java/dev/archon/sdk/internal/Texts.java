package dev.archon.sdk.internal;

import java.nio.charset.StandardCharsets;

/** Texts that every wire takes: without lone surrogates, which no UTF-8 has. */
public final class Texts {
  private Texts() {}

  /** Returns the text with a question mark for each lone surrogate. */
  public static String clean(String text) {
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else if (Character.isSurrogate(c)) {
        return replaced(text);
      }
    }
    return text;
  }

  private static String replaced(String text) {
    return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
  }

  /** Returns whether a text has only whole characters. */
  public static boolean isClean(String text) {
    return clean(text) == text;
  }

  /** Returns the text, cut to at most {@code limit} bytes of UTF-8. */
  public static String cut(String text, int limit) {
    String whole = clean(text);
    if (whole.length() * 3 <= limit || bytes(whole) <= limit) {
      return whole;
    }
    int room = limit - 3;
    int end = 0;
    while (end < whole.length()) {
      int point = whole.codePointAt(end);
      int size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (room < size) {
        break;
      }
      room -= size;
      end += Character.charCount(point);
    }
    return whole.substring(0, end) + "...";
  }

  /** Returns the bytes of a text in UTF-8. */
  public static int bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8).length;
  }

  /** Returns the number of characters, as the contract counts them: code points. */
  public static int characters(String text) {
    return text.codePointCount(0, text.length());
  }

  /** Returns the first characters of a text. */
  public static String head(String text, int limit) {
    return characters(text) <= limit ? text : text.substring(0, text.offsetByCodePoints(0, limit));
  }

  /** Returns the last characters of a text. */
  public static String tail(String text, int limit) {
    return text.length() <= limit ? text : clean(text.substring(text.length() - limit));
  }
}
