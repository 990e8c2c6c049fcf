package dev.archon.sdk.channel;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/** The public keys of a mesh, by id, its issuer, and the ids of its revoked tokens; it verifies tokens (RFC 7519, RFC 8037). */
record KeySet(String issuer, Map<String, PublicKey> keys, Set<String> revoked) {
  private static final int MAX_TOKEN = 8_192;
  private static final byte[] ED25519 = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
  private static final Pattern TENANT = Pattern.compile("[A-Za-z0-9][A-Za-z0-9-]{0,62}");

  /** Reads a key set as JSON. Throws FAILED_PRECONDITION if it is none, or has no key of Ed25519. */
  static KeySet parse(String text) {
    Map<String, PublicKey> keys = new HashMap<>();
    Set<String> revoked = new HashSet<>();
    try {
      JsonObject content = JsonParser.parseString(text).getAsJsonObject();
      for (JsonElement element : content.getAsJsonArray("keys")) {
        JsonObject key = element.getAsJsonObject();
        if (key.get("kty").getAsString().equals("OKP") && key.get("crv").getAsString().equals("Ed25519")) {
          keys.put(key.get("kid").getAsString(), publicKey(key.get("x").getAsString()));
        }
      }
      if (content.has("revoked")) {
        content.getAsJsonArray("revoked").forEach(id -> revoked.add(id.getAsString()));
      }
      if (!keys.isEmpty()) {
        return new KeySet(content.get("issuer").getAsString(), keys, revoked);
      }
    } catch (JsonParseException | IllegalStateException | NullPointerException | IllegalArgumentException
        | UnsupportedOperationException | GeneralSecurityException malformed) {
      throw notKeys(malformed);
    }
    throw notKeys(null);
  }

  private static ArchonException notKeys(Exception cause) {
    return ArchonException.of(Reasons.FAILED_PRECONDITION, "it is not a set of public keys of a mesh").cause(cause).build();
  }

  private static PublicKey publicKey(String text) throws GeneralSecurityException {
    byte[] raw = Base64.getUrlDecoder().decode(text);
    byte[] encoded = new byte[ED25519.length + raw.length];
    System.arraycopy(ED25519, 0, encoded, 0, ED25519.length);
    System.arraycopy(raw, 0, encoded, ED25519.length, raw.length);
    return KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
  }

  /** Returns the caller of a token. Throws TOKEN_INVALID, TOKEN_EXPIRED and TOKEN_REVOKED. */
  Principal verify(String token, String audience) {
    if (token.length() > MAX_TOKEN) {
      throw invalid("the token has more than " + MAX_TOKEN + " characters");
    }
    String[] pieces = token.split("\\.", -1);
    if (pieces.length != 3) {
      throw invalid("the token is not a JSON Web Token");
    }
    JsonObject header;
    JsonObject claims;
    try {
      header = json(pieces[0]);
      claims = json(pieces[1]);
      PublicKey key = keys.get(header.has("kid") ? header.get("kid").getAsString() : "");
      if (key == null) {
        throw invalid("the token was signed by another mesh than " + issuer + ", or with an earlier key of it");
      }
      if (!"EdDSA".equals(header.get("alg").getAsString()) || !isSigned(pieces, key)) {
        throw invalid("the token is not valid: its signature or its claims are wrong");
      }
      return checked(claims, audience);
    } catch (JsonParseException | IllegalStateException | NullPointerException | IllegalArgumentException
        | UnsupportedOperationException | GeneralSecurityException malformed) {
      throw invalid("the token is not valid: its signature or its claims are wrong");
    }
  }

  private static JsonObject json(String piece) {
    String text = new String(Base64.getUrlDecoder().decode(piece), StandardCharsets.UTF_8);
    return JsonParser.parseString(text).getAsJsonObject();
  }

  private static boolean isSigned(String[] pieces, PublicKey key) throws GeneralSecurityException {
    Signature signature = Signature.getInstance("Ed25519");
    signature.initVerify(key);
    signature.update((pieces[0] + "." + pieces[1]).getBytes(StandardCharsets.US_ASCII));
    return signature.verify(Base64.getUrlDecoder().decode(pieces[2]));
  }

  private Principal checked(JsonObject claims, String audience) {
    double expires = claims.get("exp").getAsDouble();
    if (System.currentTimeMillis() / 1000.0 >= expires) {
      throw ArchonException.of(Reasons.TOKEN_EXPIRED, "the token has expired").build();
    }
    if (!hasAudience(claims.get("aud"), audience)) {
      throw invalid("the token is not for the " + audience + " of the mesh");
    }
    if (!issuer.equals(claims.get("iss").getAsString()) || !claims.has("iat")) {
      throw invalid("the token is not valid: its signature or its claims are wrong");
    }
    Principal.Kind kind = Principal.Kind.of(claims.get("kind").getAsString());
    if (kind == null) {
      throw invalid("the token names no kind of caller that this mesh knows");
    }
    Set<String> roles = new HashSet<>();
    if (claims.has("roles")) {
      claims.getAsJsonArray("roles").forEach(role -> roles.add(role.getAsString()));
    }
    String name = claims.get("sub").getAsString();
    if (name.startsWith("agent:") || name.startsWith("service:") || name.chars().anyMatch(Character::isISOControl)) {
      throw invalid("the token has a name that is the identity of a member, or is not printable");
    }
    String tenant = claims.has("tenant") ? claims.get("tenant").getAsString() : Principal.DEFAULT_TENANT;
    if (!TENANT.matcher(tenant).matches()) {
      throw invalid("the token names no tenant");
    }
    String id = claims.get("jti").getAsString();
    if (revoked.contains(id)) {
      throw ArchonException.of(Reasons.TOKEN_REVOKED, "the token was revoked").build();
    }
    return new Principal(kind, name, tenant, roles, expires, id);
  }

  private static boolean hasAudience(JsonElement given, String audience) {
    if (given.isJsonArray()) {
      for (JsonElement each : given.getAsJsonArray()) {
        if (each.getAsString().equals(audience)) {
          return true;
        }
      }
      return false;
    }
    return given.getAsString().equals(audience);
  }

  private static ArchonException invalid(String text) {
    return ArchonException.of(Reasons.TOKEN_INVALID, text).build();
  }
}
