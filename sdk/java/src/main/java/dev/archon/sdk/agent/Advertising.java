package dev.archon.sdk.agent;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.registry.Registration;
import dev.archon.sdk.registry.RegistrationHandle;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.tools.ToolOwner;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;

/**
 * Keeps the registration of an owner as its shared tools change: at once when one is shared or taken back, and once a minute if the
 * figures of one have changed notably.
 */
final class Advertising {
  private static final double INTERVAL = 60.0;

  private final ToolOwner tools;
  private final RegistrationHandle handle;
  private final Consumer<Registration> registered;
  private final Thread thread;

  Advertising(ToolOwner tools, RegistrationHandle handle, Consumer<Registration> registered) {
    this.tools = tools;
    this.handle = handle;
    this.registered = registered;
    thread = new Thread(this::run, "archon-advertising");
    thread.setDaemon(true);
  }

  /** Returns the tools of a registration: each once, those that are shared with their terms. */
  static List<Tool> withShared(List<Tool> own, List<Tool> shared) {
    Map<String, Tool> tools = new LinkedHashMap<>();
    own.forEach(tool -> tools.put(tool.name(), tool.withShare(null)));
    shared.forEach(tool -> tools.put(tool.name(), tool));
    return new ArrayList<>(tools.values());
  }

  void start() {
    thread.start();
  }

  private void run() {
    List<Tool> own = handle.registration().tools().stream().filter(tool -> tool.share() == null).toList();
    int seen = tools.changes();
    try {
      while (true) {
        seen = tools.awaitChange(seen, INTERVAL * ThreadLocalRandom.current().nextDouble(1.0, 1.1));
        update(own);
        Thread.sleep(1_000);
      }
    } catch (InterruptedException closed) {
      System.getLogger("dev.archon.sdk").log(System.Logger.Level.TRACE, "the tools are not advertised any more");
    }
  }

  private void update(List<Tool> own) throws InterruptedException {
    List<Tool> shared = tools.advertised();
    List<Tool> known = handle.registration().tools().stream().filter(tool -> tool.share() != null).toList();
    if (!ToolOwner.differNotably(known, shared)) {
      return;
    }
    try {
      handle.update(handle.registration().withTools(withShared(own, shared)));
      registered.accept(handle.registration());
    } catch (ArchonException refused) {
      System.getLogger("dev.archon.sdk")
          .log(System.Logger.Level.WARNING, "the figures of the shared tools are not registered: " + refused);
    }
  }

  void close() throws InterruptedException {
    thread.interrupt();
    thread.join(2_000);
  }
}
