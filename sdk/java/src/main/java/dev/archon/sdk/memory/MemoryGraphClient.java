package dev.archon.sdk.memory;

import dev.archon.api.memory.v1.ClearItemsRequest;
import dev.archon.api.memory.v1.MemoryGraphServiceGrpc;
import dev.archon.api.memory.v1.PublishItemsRequest;
import dev.archon.api.memory.v1.PullItemsRequest;
import dev.archon.api.memory.v1.SearchItemsRequest;
import dev.archon.api.memory.v1.WatchItemsRequest;
import dev.archon.api.memory.v1.WatchItemsResponse;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.channel.CertificateFolder;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Credentials;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.registry.Backoff;
import dev.archon.sdk.types.PropagationPolicy;
import io.grpc.ManagedChannel;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * A connection to the shared memory at host:port for one scope: the id of a session or of a run. Calls throw UNAVAILABLE and
 * DEADLINE_EXCEEDED if the service is unreachable, INVALID_ARGUMENT with the invalid fields. For any thread; close it.
 */
public final class MemoryGraphClient implements AutoCloseable {
  private static final double CALL_TIMEOUT = 10.0;
  private static final int MAX_PUBLISH_BYTES = 4 * 1024 * 1024 + 64 * 1024;

  private final ManagedChannel channel;
  private final String scope;

  /** Connects with the credentials and the certificate that the environment gives. */
  public MemoryGraphClient(String target, String scope) {
    this(target, scope, Environment.own(), null, null);
  }

  /** Connects with these credentials and this certificate; null for the own ones. */
  public MemoryGraphClient(
      String target, String scope, Environment environment, Credentials credentials, CertificateFolder certificate) {
    this.scope = scope;
    channel = Channels.connect(target, Peer.MEMORY, environment, credentials, certificate);
  }

  /** Returns the items of the role's direct predecessors, in dependency order; none if the role is unknown. */
  public List<MemoryItem> pullFor(String role) throws InterruptedException {
    return pull(role, false);
  }

  /** Returns the items of all ancestors, nearest first; none if the role is unknown. */
  public List<MemoryItem> pullForIndirect(String role) throws InterruptedException {
    return pull(role, true);
  }

  private List<MemoryItem> pull(String role, boolean allAncestors) throws InterruptedException {
    PullItemsRequest request =
        PullItemsRequest.newBuilder().setScope(scope).setRole(role).setAllAncestors(allAncestors).build();
    return Calls.unary(channel, MemoryGraphServiceGrpc.getPullItemsMethod(), request, CALL_TIMEOUT).getItemsList().stream()
        .map(MemoryItem::of)
        .toList();
  }

  /**
   * Replaces the role's item by one of the next version, which it returns; 0 if the content is blank and nothing was published. Throws
   * MESSAGE_TOO_LARGE for more than 4 MiB of text.
   */
  public long publish(String role, String content, Map<String, String> metadata, PropagationPolicy policy)
      throws InterruptedException {
    PublishItemsRequest.Builder request =
        PublishItemsRequest.newBuilder().setScope(scope).setRequestId(UUID.randomUUID().toString());
    request.addItemsBuilder().setRole(role).setContent(content).putAllMetadata(metadata).setPolicy(policy.proto());
    PublishItemsRequest message = request.build();
    if (message.getSerializedSize() > MAX_PUBLISH_BYTES) {
      String text = "the items make a message of %,d bytes, more than the limit of %,d";
      text = String.format(text, message.getSerializedSize(), MAX_PUBLISH_BYTES);
      throw ArchonException.of(Reasons.MESSAGE_TOO_LARGE, text).build();
    }
    return Calls.unary(channel, MemoryGraphServiceGrpc.getPublishItemsMethod(), message, CALL_TIMEOUT)
        .getPublished(0)
        .getVersion();
  }

  /** An item that a search found, without its text: the passage that answers the query best, and its similarity, 0 to 1. */
  public record FoundItem(MemoryItem item, String passage, double score) {}

  /** Returns the items that answer a query, by meaning and by words, best first; of a role's ancestors unless it is empty. */
  public List<FoundItem> search(String query, int limit, String role) throws InterruptedException {
    SearchItemsRequest request =
        SearchItemsRequest.newBuilder().setScope(scope).setQuery(query).setLimit(limit).setRole(role).build();
    return Calls.unary(channel, MemoryGraphServiceGrpc.getSearchItemsMethod(), request, CALL_TIMEOUT).getItemsList().stream()
        .map(found -> new FoundItem(MemoryItem.of(found.getItem()), found.getPassage(), found.getScore()))
        .toList();
  }

  /** Deletes all items of the scope and returns how many there were; their versions continue. */
  public int clear() throws InterruptedException {
    ClearItemsRequest request = ClearItemsRequest.newBuilder().setScope(scope).build();
    return Calls.unary(channel, MemoryGraphServiceGrpc.getClearItemsMethod(), request, CALL_TIMEOUT).getCleared();
  }

  /** Items in the order in which they were published. A snapshot replaces all earlier items. */
  public record Change(List<MemoryItem> items, boolean isSnapshot) {}

  /** Watches the scope: a snapshot first, then each publish. It reconnects by itself, with a new snapshot. Close it. */
  public Watch watch() {
    return new Watch();
  }

  /** A watch of the scope. Used by one thread; {@link #close} by any. */
  public final class Watch implements AutoCloseable {
    private Calls.ServerStream<WatchItemsResponse> stream;
    private boolean isClosed;

    private Watch() {}

    /** Returns the next change, and waits for it. Throws errors that are not transient, and CANCELLED after {@link #close}. */
    public Change next() throws InterruptedException {
      int attempt = 0;
      while (true) {
        try {
          WatchItemsResponse message = opened().next();
          if (message != null) {
            List<MemoryItem> items = message.getItemsList().stream().map(MemoryItem::of).toList();
            return new Change(items, message.getSnapshot());
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

    private synchronized Calls.ServerStream<WatchItemsResponse> opened() {
      if (stream == null) {
        WatchItemsRequest request = WatchItemsRequest.newBuilder().setScope(scope).build();
        stream = Calls.serverStream(channel, MemoryGraphServiceGrpc.getWatchItemsMethod(), request, 0);
      }
      return stream;
    }

    private synchronized void reset() {
      if (stream != null) {
        stream.close();
        stream = null;
      }
    }

    @Override
    public synchronized void close() {
      isClosed = true;
      reset();
    }
  }

  /** Closes the connection. Idempotent. */
  @Override
  public void close() {
    Channels.close(channel);
  }
}
