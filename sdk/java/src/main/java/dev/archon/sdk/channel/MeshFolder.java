package dev.archon.sdk.channel;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The folder of a mesh on this machine, as programs outside of the mesh find it: its token, its keys, its addresses. */
public record MeshFolder(Path root) {
  private static final String NAME = ".archon";

  /** Returns the file with the tokens of the user who started the mesh. */
  public Path tokenFile() {
    return root.resolve("token");
  }

  /** Returns the file with the public keys that verify the tokens of the mesh. */
  public Path keysFile() {
    return root.resolve("keys.json");
  }

  /** Returns the folder of the certificate of the user who started the mesh. */
  public Path userCertificate() {
    return root.resolve("tls").resolve("user");
  }

  /**
   * Returns whether a running mesh of this folder has a service at the target. Another program may listen there while the mesh
   * does not run: it would get the token.
   */
  public boolean serves(String target) {
    return liveState().map(state -> has(state, target, Set.of("service"))).orElse(false);
  }

  /** Returns whether a running mesh of this folder has a member at the target, and encrypts its connections. */
  public boolean encrypts(String target) {
    return liveState()
        .map(state -> truthy(state.get("tls")) && has(state, target, Set.of("service", "agent")))
        .orElse(false);
  }

  private static boolean truthy(JsonElement value) {
    if (value == null || value.isJsonNull()) {
      return false;
    }
    return !value.isJsonPrimitive() || !(value.getAsString().equals("false") || value.getAsString().isEmpty());
  }

  private Optional<JsonObject> liveState() {
    try {
      if (isOfOthers(root)) {
        return Optional.empty();
      }
      JsonElement state = JsonParser.parseString(Files.readString(root.resolve("state.json")));
      long pid = state.getAsJsonObject().get("pid").getAsLong();
      return isHeld(pid) ? Optional.of(state.getAsJsonObject()) : Optional.empty();
    } catch (IOException | JsonParseException | IllegalStateException | NullPointerException | UnsupportedOperationException none) {
      return Optional.empty();
    }
  }

  /** Returns whether the supervisor of the mesh, by its id, holds the lock. */
  private boolean isHeld(long pid) throws IOException {
    Path lock = root.resolve("lock");
    if (!Files.readString(lock).strip().equals(Long.toString(pid))) {
      return false;
    }
    if (ProcessHandle.of(pid).filter(ProcessHandle::isAlive).isEmpty()) {
      return false;
    }
    Path locks = Path.of("/proc/locks"); // java.nio has no flock
    if (!Files.isReadable(locks)) {
      return true;
    }
    String inode = ":" + Files.getAttribute(lock, "unix:ino") + " ";
    List<String> held = Files.readAllLines(locks);
    return held.isEmpty() || held.stream().anyMatch(line -> line.contains("FLOCK") && line.contains(inode));
  }

  private static boolean has(JsonObject state, String target, Set<String> kinds) {
    int port = Addresses.port(target);
    if (port < 0 || !Addresses.isLoopback(Addresses.host(target))) {
      return false;
    }
    for (JsonElement process : state.getAsJsonArray("processes")) {
      JsonObject entry = process.getAsJsonObject();
      if (kinds.contains(entry.get("kind").getAsString()) && Addresses.port(entry.get("address").getAsString()) == port) {
        return true;
      }
    }
    return false;
  }

  /** Returns whether another user but root could change a folder or a file. */
  static boolean isOfOthers(Path path) throws IOException {
    Object own = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    for (LinkOption[] options : new LinkOption[][] {{LinkOption.NOFOLLOW_LINKS}, {}}) {
      Object owner = Files.getAttribute(path, "unix:uid", options);
      if (!owner.equals(0) && !owner.equals(own)) {
        return true;
      }
    }
    Set<PosixFilePermission> allowed = Files.getPosixFilePermissions(path);
    return allowed.contains(PosixFilePermission.GROUP_WRITE) || allowed.contains(PosixFilePermission.OTHERS_WRITE);
  }

  /** Returns the folders in which a program looks for its mesh: ARCHON_HOME, else the nearest. */
  public static List<MeshFolder> candidates(Environment environment) {
    String configured = environment.get("ARCHON_HOME");
    if (!configured.isEmpty()) {
      return List.of(new MeshFolder(Path.of(configured).toAbsolutePath()));
    }
    Path nearest = nearest(Path.of("").toAbsolutePath());
    return Files.isSymbolicLink(nearest) ? List.of() : List.of(new MeshFolder(nearest));
  }

  private static Path nearest(Path start) {
    List<Path> searched = new ArrayList<>();
    Path home = Path.of(System.getProperty("user.home", "/"));
    for (Path folder = start; folder != null; folder = folder.getParent()) {
      searched.add(folder.resolve(NAME));
      if (folder.equals(home) || Files.exists(folder.resolve(".git"))) {
        return searched.stream().filter(Files::isDirectory).findFirst().orElse(start.resolve(NAME));
      }
    }
    return start.resolve(NAME);
  }
}
