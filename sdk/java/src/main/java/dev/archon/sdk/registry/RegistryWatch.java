package dev.archon.sdk.registry;

import dev.archon.api.registry.v1.RegistryServiceGrpc;
import dev.archon.api.registry.v1.WatchRequest;
import dev.archon.api.registry.v1.WatchResponse;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.errors.ArchonException;
import io.grpc.ManagedChannel;
import java.util.ArrayList;
import java.util.List;

/** A watch of the registry, which reconnects and resumes after any outage. Used by one thread; {@link #close} by any. */
public final class RegistryWatch implements AutoCloseable {
  private final ManagedChannel channel;
  private Calls.ServerStream<WatchResponse> stream;
  private long revision;
  private boolean isClosed;

  RegistryWatch(ManagedChannel channel) {
    this.channel = channel;
  }

  /** Returns the next change, and waits for it. Throws errors that are not transient, and CANCELLED after {@link #close}. */
  public RegistryChange next() throws InterruptedException {
    int attempt = 0;
    while (true) {
      try {
        List<WatchResponse> parts = new ArrayList<>();
        Calls.ServerStream<WatchResponse> current = opened();
        for (WatchResponse part = current.next(); part != null; part = current.next()) {
          parts.add(part);
          if (part.getRevision() != 0) {
            revision = part.getRevision();
            return change(parts);
          }
        }
        reset();
      } catch (ArchonException error) {
        if (isClosed || !Backoff.isTransient(error)) {
          throw error;
        }
        reset();
      }
      Backoff.sleep(attempt++, null, 1.0);
    }
  }

  private synchronized Calls.ServerStream<WatchResponse> opened() {
    if (stream == null) {
      WatchRequest request = WatchRequest.newBuilder().setFromRevision(revision).build();
      stream = Calls.serverStream(channel, RegistryServiceGrpc.getWatchMethod(), request, 0);
    }
    return stream;
  }

  private synchronized void reset() {
    if (stream != null) {
      stream.close();
      stream = null;
    }
  }

  private static RegistryChange change(List<WatchResponse> parts) {
    WatchResponse last = parts.get(parts.size() - 1);
    List<Registration> instances = new ArrayList<>();
    parts.forEach(part -> part.getInstancesList().forEach(each -> instances.add(Convert.fromProto(each))));
    Graph graph = last.hasGraph() ? Graph.of(last.getGraph()) : null;
    return new RegistryChange(
        last.getRevision(), parts.get(0).getSnapshot(), instances, List.copyOf(last.getRemovedInstanceIdsList()), graph);
  }

  @Override
  public synchronized void close() {
    isClosed = true;
    reset();
  }
}
