package dev.archon.sdk.memory;

import dev.archon.api.memory.v1.DeleteValueRequest;
import dev.archon.api.memory.v1.GetValueRequest;
import dev.archon.api.memory.v1.ListValuesRequest;
import dev.archon.api.memory.v1.ListValuesResponse;
import dev.archon.api.memory.v1.SetValueRequest;
import dev.archon.api.memory.v1.WorkingMemoryServiceGrpc;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.channel.CertificateFolder;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Credentials;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import io.grpc.ManagedChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** A connection to the working memory at host:port: versioned JSON values that the tasks of a run share. For any thread; close it. */
public final class WorkingMemoryClient implements AutoCloseable {
  private static final double CALL_TIMEOUT = 10.0;
  private static final int MAX_KEY = 256;
  private static final int MAX_VALUE_BYTES = 1024 * 1024;

  private final ManagedChannel channel;
  private final String scope;

  /** A current value. {@code version} counts the writes of the key, from 1 on; {@code time} is in seconds since the Unix epoch. */
  public record Value(String key, String json, long version, double time) {
    private static Value of(dev.archon.api.memory.v1.WorkingValue message) {
      return new Value(
          message.getKey(), message.getValueJson(), message.getVersion(), Wire.seconds(message.getUpdateTime()));
    }
  }

  /** Connects to the values of a run, with the credentials and the certificate that the environment gives. */
  public WorkingMemoryClient(String target, String runId) {
    this(target, runId, Environment.own(), null, null);
  }

  /** Connects with these credentials and this certificate; null for the own ones. */
  public WorkingMemoryClient(
      String target, String runId, Environment environment, Credentials credentials, CertificateFolder certificate) {
    scope = runId;
    channel = Channels.connect(target, Peer.MEMORY, environment, credentials, certificate);
  }

  /** Returns the value of a key; empty if it has none. */
  public Optional<Value> get(String key) throws InterruptedException {
    GetValueRequest request = GetValueRequest.newBuilder().setScope(scope).setKey(checked(key)).build();
    try {
      return Optional.of(
          Value.of(Calls.unary(channel, WorkingMemoryServiceGrpc.getGetValueMethod(), request, CALL_TIMEOUT).getValue()));
    } catch (ArchonException error) {
      if (error.is(Reasons.NOT_FOUND)) {
        return Optional.empty();
      }
      throw error;
    }
  }

  /** Writes a JSON value and returns its version. */
  public long set(String key, String json) throws InterruptedException {
    return set(key, json, OptionalLong.empty());
  }

  /**
   * Writes a JSON value if the current version is this one, 0 for no value. Throws CONFLICT if it is another one; after UNAVAILABLE or
   * DEADLINE_EXCEEDED the value may have been written.
   */
  public long set(String key, String json, OptionalLong expectedVersion) throws InterruptedException {
    if (Texts.bytes(json) > MAX_VALUE_BYTES) {
      String text = String.format("value_json has more than %,d bytes; pass large content by URL", MAX_VALUE_BYTES);
      throw ArchonException.of(io.grpc.Status.Code.RESOURCE_EXHAUSTED, text).reason(Reasons.MESSAGE_TOO_LARGE).build();
    }
    SetValueRequest.Builder request = SetValueRequest.newBuilder().setScope(scope).setKey(checked(key)).setValueJson(json);
    expectedVersion.ifPresent(request::setExpectedVersion);
    return Calls.unary(channel, WorkingMemoryServiceGrpc.getSetValueMethod(), request.build(), CALL_TIMEOUT)
        .getValue()
        .getVersion();
  }

  /** Deletes a value; its versions continue. Returns whether there was one. */
  public boolean delete(String key) throws InterruptedException {
    DeleteValueRequest request = DeleteValueRequest.newBuilder().setScope(scope).setKey(checked(key)).build();
    return Calls.unary(channel, WorkingMemoryServiceGrpc.getDeleteValueMethod(), request, CALL_TIMEOUT).getDeleted();
  }

  /** Returns the values whose keys begin with a prefix, by key. */
  public List<Value> list(String prefix) throws InterruptedException {
    List<Value> values = new ArrayList<>();
    String page = "";
    do {
      ListValuesRequest request =
          ListValuesRequest.newBuilder().setScope(scope).setPrefix(prefix).setPageSize(1_000).setPageToken(page).build();
      ListValuesResponse response =
          Calls.unary(channel, WorkingMemoryServiceGrpc.getListValuesMethod(), request, CALL_TIMEOUT);
      response.getValuesList().forEach(value -> values.add(Value.of(value)));
      page = response.getNextPageToken();
    } while (!page.isEmpty());
    return values;
  }

  private static String checked(String key) {
    if (key.isEmpty() || Texts.characters(key) > MAX_KEY || key.indexOf('\0') >= 0) {
      throw ArchonException.invalid("key", "1 to " + MAX_KEY + " characters, none of them U+0000");
    }
    return key;
  }

  /** Closes the connection. Idempotent. */
  @Override
  public void close() {
    Channels.close(channel);
  }
}
