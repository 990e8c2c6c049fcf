package dev.archon.sdk;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import javax.crypto.Cipher;
import javax.crypto.KeyAgreement;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Secret answers of people, encrypted for the attempt that asks: no journal, record or watcher of the run has them. The encryption is
 * HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM, by the primitives of the JDK.
 */
public final class SecretAnswers {
  /** Bytes of a secret answer. */
  public static final int MAX_SECRET = 64 * 1024;

  private static final byte[] INFO = ascii("archon secret answer v1");
  private static final String PREFIX = "sealed:";
  private static final String PUBLIC_KEY = "x-archon-public-key";
  private static final byte[] VERSION = ascii("HPKE-v1");
  private static final byte[] KEM = ascii("KEM\0 ");
  private static final byte[] SUITE = ascii("HPKE\0 \0\1\0\1");
  private static final byte[] SPKI = HexFormat.of().parseHex("302a300506032b656e032100");
  private static final int POINT = 32;
  private static final int HASH = 32;
  private static final int TAG_BITS = 128;
  private static final byte[] NONE = {};

  private SecretAnswers() {}

  /** A question whose answer only this object can read. */
  public static final class SecretQuestion {
    private final KeyPair pair = newPair();

    /** Returns the JSON Schema of the answer. It accepts no answer that is not encrypted. */
    public String schemaJson() {
      JsonObject schema = new JsonObject();
      schema.addProperty("type", "string");
      schema.addProperty("pattern", "^" + PREFIX + "[A-Za-z0-9+/]+=*$");
      schema.addProperty("writeOnly", true);
      schema.addProperty(PUBLIC_KEY, Base64.getEncoder().encodeToString(raw(pair.getPublic())));
      return schema.toString();
    }

    /** Returns the text of an answer. Throws INVALID_ARGUMENT if it was not encrypted for this question. */
    public String open(String answer) {
      try {
        if (answer.startsWith(PREFIX)) {
          byte[] sealed = Base64.getDecoder().decode(answer.substring(PREFIX.length()));
          byte[] encapsulated = Arrays.copyOf(sealed, Math.min(POINT, sealed.length));
          byte[] ciphertext = Arrays.copyOfRange(sealed, encapsulated.length, sealed.length);
          Cipher cipher = cipher(Cipher.DECRYPT_MODE, pair.getPrivate(), encapsulated, encapsulated, raw(pair.getPublic()));
          return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(cipher.doFinal(ciphertext))).toString();
        }
      } catch (GeneralSecurityException | IllegalArgumentException | CharacterCodingException notOpened) {
        throw notForThis(notOpened);
      }
      throw notForThis(null);
    }

    private static ArchonException notForThis(Exception cause) {
      String text = "the answer was not encrypted for this question";
      return ArchonException.of(Reasons.INVALID_ARGUMENT, text).cause(cause).build();
    }
  }

  /** Returns whether the answer to a question with this JSON Schema has to be encrypted. */
  public static boolean isSecret(String schemaJson) {
    return !publicKey(schemaJson).isEmpty();
  }

  /**
   * Encrypts an answer for the question with this JSON Schema. Throws INVALID_ARGUMENT if the schema has no valid public key, or the
   * answer is empty or above MAX_SECRET bytes.
   */
  public static String seal(String schemaJson, String answer) {
    byte[] secret = answer.getBytes(StandardCharsets.UTF_8);
    if (secret.length == 0 || secret.length > MAX_SECRET) {
      throw ArchonException.invalid("answer", "a secret answer has 1 to " + MAX_SECRET + " bytes, not " + secret.length);
    }
    try {
      byte[] receiver = Base64.getDecoder().decode(publicKey(schemaJson));
      KeyPair ephemeral = newPair();
      byte[] encapsulated = raw(ephemeral.getPublic());
      Cipher cipher = cipher(Cipher.ENCRYPT_MODE, ephemeral.getPrivate(), receiver, encapsulated, receiver);
      return PREFIX + Base64.getEncoder().encodeToString(join(encapsulated, cipher.doFinal(secret)));
    } catch (GeneralSecurityException | IllegalArgumentException invalid) {
      String text = "the question has no valid public key to encrypt the answer with";
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, text).cause(invalid).build();
    }
  }

  private static String publicKey(String schemaJson) {
    try {
      JsonElement schema = JsonParser.parseString(schemaJson);
      JsonElement key = schema.isJsonObject() ? schema.getAsJsonObject().get(PUBLIC_KEY) : null;
      return key != null && key.isJsonPrimitive() && key.getAsJsonPrimitive().isString() ? key.getAsString() : "";
    } catch (JsonParseException malformed) {
      return "";
    }
  }

  private static KeyPair newPair() {
    try {
      return KeyPairGenerator.getInstance("X25519").generateKeyPair();
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible); // every Java 17 has it
    }
  }

  /** Returns the 32 bytes of a public key, which its encoding ends with. */
  private static byte[] raw(PublicKey key) {
    byte[] encoded = key.getEncoded();
    return Arrays.copyOfRange(encoded, encoded.length - POINT, encoded.length);
  }

  /** Returns the cipher of the first message between a key of this process and another one (RFC 9180, 4.1 and 5.1). */
  private static Cipher cipher(int mode, PrivateKey own, byte[] other, byte[] encapsulated, byte[] receiver)
      throws GeneralSecurityException {
    KeyAgreement agreement = KeyAgreement.getInstance("X25519");
    agreement.init(own);
    agreement.doPhase(KeyFactory.getInstance("X25519").generatePublic(new X509EncodedKeySpec(join(SPKI, other))), true);
    byte[] zeroes = new byte[HASH];
    byte[] kem =
        expand(KEM, extract(KEM, zeroes, "eae_prk", agreement.generateSecret()), "shared_secret", join(encapsulated, receiver), HASH);
    byte[] hashes = join(extract(SUITE, zeroes, "psk_id_hash", NONE), extract(SUITE, zeroes, "info_hash", INFO));
    byte[] context = join(new byte[1], hashes);
    byte[] secret = extract(SUITE, kem, "secret", NONE);
    Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
    GCMParameterSpec nonce = new GCMParameterSpec(TAG_BITS, expand(SUITE, secret, "base_nonce", context, 12));
    cipher.init(mode, new SecretKeySpec(expand(SUITE, secret, "key", context, 16), "AES"), nonce);
    return cipher;
  }

  /** LabeledExtract. */
  private static byte[] extract(byte[] id, byte[] salt, String label, byte[] material) throws GeneralSecurityException {
    return mac(salt, VERSION, id, ascii(label), material);
  }

  /** LabeledExpand of at most one block. */
  private static byte[] expand(byte[] id, byte[] key, String label, byte[] info, int size) throws GeneralSecurityException {
    byte[] length = {0, (byte) size};
    return Arrays.copyOf(mac(key, length, VERSION, id, ascii(label), info, new byte[] {1}), size);
  }

  private static byte[] mac(byte[] key, byte[]... parts) throws GeneralSecurityException {
    Mac hash = Mac.getInstance("HmacSHA256");
    hash.init(new SecretKeySpec(key, "HmacSHA256"));
    for (byte[] part : parts) {
      hash.update(part);
    }
    return hash.doFinal();
  }

  private static byte[] join(byte[] first, byte[] second) {
    byte[] all = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, all, first.length, second.length);
    return all;
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }
}
