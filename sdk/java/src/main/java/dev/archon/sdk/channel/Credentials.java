package dev.archon.sdk.channel;

import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

/** The source of the token that calls present. */
@FunctionalInterface
public interface Credentials {
  /** Presents nothing. */
  Credentials NONE = audience -> "";

  /** Returns the token for members of an audience ({@code services} or {@code agents}); empty if there is none. */
  String token(String audience);

  /** Presents the tokens of a text: one for each audience, separated by commas or white space. Throws TOKEN_INVALID. */
  static Credentials of(String text) {
    Map<String, String> tokens = tokensIn(text);
    return audience -> tokens.getOrDefault(audience, "");
  }

  /** Presents the tokens of a file, which is read again when it has changed. */
  static Credentials file(Path path) {
    return new TokenFile(path);
  }

  /**
   * Returns the credentials of calls to a target, by the environment: ARCHON_TOKEN, ARCHON_TOKEN_FILE, else the user's token of
   * the mesh on this machine that has a service at the target, once there is one.
   */
  static Credentials own(String target, Environment environment) {
    String text = environment.get("ARCHON_TOKEN");
    if (!text.isEmpty()) {
      try {
        return of(text);
      } catch (ArchonException malformed) {
        throw invalid("ARCHON_TOKEN has no token: it is not a JSON Web Token");
      }
    }
    String path = environment.get("ARCHON_TOKEN_FILE");
    return path.isEmpty() ? new FoundTokens(target, environment) : file(Path.of(path));
  }

  /** Returns whether the environment gives this process a token. */
  static boolean hasOwn(Environment environment) {
    return !environment.get("ARCHON_TOKEN").isEmpty() || !environment.get("ARCHON_TOKEN_FILE").isEmpty();
  }

  /** Returns the tokens of a text by their audience. Throws TOKEN_INVALID if a part is no token. */
  private static Map<String, String> tokensIn(String text) {
    Map<String, String> tokens = new HashMap<>();
    for (String token : text.strip().split("[\\s,]+")) {
      if (!token.isEmpty()) {
        JsonObject claims = claims(token);
        boolean isForAgents = claims.has("aud") && claims.get("aud").toString().equals("\"agents\"");
        tokens.put(isForAgents ? "agents" : "services", token);
      }
    }
    return tokens;
  }

  /** Returns the claims of a token without verifying it. Throws TOKEN_INVALID if it is no token. */
  private static JsonObject claims(String token) {
    try {
      byte[] payload = Base64.getUrlDecoder().decode(token.split("\\.")[1]);
      return JsonParser.parseString(new String(payload, StandardCharsets.UTF_8)).getAsJsonObject();
    } catch (ArrayIndexOutOfBoundsException
        | IllegalArgumentException
        | IllegalStateException
        | JsonParseException malformed) {
      throw invalid("the text is not a JSON Web Token");
    }
  }

  private static ArchonException invalid(String text) {
    return ArchonException.of(Reasons.TOKEN_INVALID, text).build();
  }

  /** A file of tokens, looked at once a second at most. */
  final class TokenFile implements Credentials {
    private final Path path;
    private long checkedAt;
    private boolean wasChecked;
    private FileTime modified;
    private long size;
    private Map<String, String> tokens = Map.of();

    private TokenFile(Path path) {
      this.path = path;
    }

    @Override
    public synchronized String token(String audience) {
      long now = System.nanoTime();
      if (!wasChecked || now - checkedAt >= 1_000_000_000L) {
        wasChecked = true;
        checkedAt = now;
        read();
      }
      return tokens.getOrDefault(audience, "");
    }

    private void read() {
      try {
        FileTime time = Files.getLastModifiedTime(path);
        long bytes = Files.size(path);
        if (!time.equals(modified) || bytes != size) {
          tokens = tokensIn(Files.readString(path));
          modified = time;
          size = bytes;
        }
      } catch (IOException unreadable) {
        System.getLogger("dev.archon.sdk").log(System.Logger.Level.DEBUG, "the file of tokens cannot be read now");
      } catch (ArchonException malformed) {
        throw invalid(path + " has no token: it is not a JSON Web Token");
      }
    }
  }

  /** The user's token of the mesh on this machine, looked for until it is found. */
  final class FoundTokens implements Credentials {
    private final String target;
    private final Environment environment;
    private long lookedAt;
    private boolean hasLooked;
    private Credentials found;

    private FoundTokens(String target, Environment environment) {
      this.target = target;
      this.environment = environment;
    }

    @Override
    public synchronized String token(String audience) {
      long now = System.nanoTime();
      if (found == null && (!hasLooked || now - lookedAt >= 100_000_000L)) {
        hasLooked = true;
        lookedAt = now;
        MeshFolder.candidates(environment).stream()
            .filter(folder -> folder.serves(target))
            .findFirst()
            .ifPresent(folder -> found = new TokenFile(folder.tokenFile()));
      }
      return found == null ? "" : found.token(audience);
    }
  }
}
