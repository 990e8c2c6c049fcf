package dev.archon.sdk.agent;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** The file that says that the agent serves: it has the address. */
final class ReadyFile {
  private ReadyFile() {}

  /** Writes the address atomically, if a file is wanted. */
  static void write(String path, String address) {
    if (path.isEmpty()) {
      return;
    }
    Path file = Path.of(path).toAbsolutePath();
    Path partial = file.resolveSibling("." + file.getFileName() + "." + ProcessHandle.current().pid());
    try {
      Files.deleteIfExists(partial); // of a process that was killed, or a link
      Files.writeString(partial, address, StandardOpenOption.CREATE_NEW);
      Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException error) {
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, "cannot write " + path + ": " + error).cause(error).build();
    }
  }

  /** Removes the file: the agent serves no more. */
  static void remove(String path) {
    if (!path.isEmpty()) {
      try {
        Files.deleteIfExists(Path.of(path));
      } catch (IOException error) {
        System.getLogger("dev.archon.sdk").log(System.Logger.Level.WARNING, "cannot remove " + path + ": " + error);
      }
    }
  }
}
