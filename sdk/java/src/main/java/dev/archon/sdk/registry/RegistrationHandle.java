package dev.archon.sdk.registry;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A registration that is kept until it is closed: its lease is renewed every third of its time, and it is registered again whenever
 * the registry has lost it. For any thread; a thread of its own keeps it.
 */
public final class RegistrationHandle implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private final RegistryClient client;
  private final Thread thread;
  private final CompletableFuture<ArchonException> invalid = new CompletableFuture<>();
  private CompletableFuture<Boolean> answer = new CompletableFuture<>();
  private Registration registration;
  private boolean isWanted = true;
  private boolean isRegistered;
  private boolean isClosed;
  private double ttl;
  private double renewed;

  RegistrationHandle(RegistryClient client, Registration registration) {
    this.client = client;
    this.registration = registration;
    this.ttl = Math.max(1.0, registration.ttl());
    thread = new Thread(this::keep, "archon-registration-" + registration.instanceId());
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Returns the content that is registered, or will be. */
  public synchronized Registration registration() {
    return registration;
  }

  /** Returns whether the registry is known to hold the registration. */
  public synchronized boolean isRegistered() {
    return isRegistered;
  }

  /** Completes with the error once the registry has refused the content as invalid: no further attempt succeeds with it. */
  public CompletableFuture<ArchonException> invalid() {
    return invalid;
  }

  /** Waits until the registry holds the registration, at most so many seconds. Throws errors that are not transient. */
  void awaitAnswer(double seconds) throws InterruptedException {
    CompletableFuture<Boolean> current;
    synchronized (this) {
      current = answer;
    }
    try {
      current.get((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    } catch (TimeoutException unreachable) {
      LOG.log(System.Logger.Level.DEBUG, "the registry has not answered; registration goes on in the background");
    } catch (ExecutionException refused) {
      throw Failures.of(refused.getCause());
    }
  }

  /**
   * Registers other content under the same instance. If the registry refuses it, the error is thrown and the former content stays.
   * If the registry is unreachable for ten seconds, it goes on in the background.
   */
  public void update(Registration changed) throws InterruptedException {
    Registration before;
    synchronized (this) {
      before = registration;
      want(changed);
    }
    try {
      awaitAnswer(10.0);
    } catch (ArchonException refused) {
      synchronized (this) {
        want(before);
      }
      throw refused;
    }
  }

  private void want(Registration content) {
    registration = content;
    isWanted = true;
    isRegistered = false;
    answer = new CompletableFuture<>();
    notifyAll();
  }

  private void keep() {
    int attempt = 0;
    String logged = "";
    try {
      while (true) {
        Registration content;
        synchronized (this) {
          if (isClosed) {
            return;
          }
          content = registration;
          isWanted = false;
        }
        double began = now();
        try {
          double granted = client.registerOnce(content);
          synchronized (this) {
            if (granted > 0) {
              ttl = granted;
            }
            renewed = began;
            if (!isWanted) {
              isRegistered = true;
              answer.complete(true);
            }
          }
          attempt = 0;
          renewUntilLost();
        } catch (ArchonException error) {
          refused(error);
          if (attempt == 0 || (!Backoff.isTransient(error) && !error.toString().equals(logged))) {
            LOG.log(System.Logger.Level.WARNING, "{0} is not registered, trying again: {1}", content.instanceId(), error);
            logged = error.toString();
          }
          Backoff.sleep(attempt++, error, 2.0);
        }
      }
    } catch (InterruptedException closed) {
      LOG.log(System.Logger.Level.DEBUG, "the registration is not kept any more");
    }
  }

  private synchronized void refused(ArchonException error) {
    isRegistered = false;
    if (!Backoff.isTransient(error)) {
      answer.completeExceptionally(error);
    }
    if (error.code() == Status.Code.INVALID_ARGUMENT) {
      invalid.complete(error);
    }
  }

  /** Renews the lease until it has expired or the content has changed. Streams that break are opened again. */
  private void renewUntilLost() throws InterruptedException {
    int attempt = 0;
    while (true) {
      double began = now();
      try (KeepAliveStream stream = client.openKeepAlive()) {
        while (awaitDue()) {
          double sent = now();
          double left = stream.renew(registration().instanceId(), Math.max(1.0, ttl / 3));
          if (left <= 0) {
            synchronized (this) {
              isRegistered = false;
            }
            return;
          }
          synchronized (this) {
            ttl = left;
            renewed = sent;
            isRegistered = !isWanted;
          }
        }
        return;
      } catch (ArchonException broken) {
        LOG.log(System.Logger.Level.INFO, "the keepalive stream broke, opening another: {0}", broken);
      }
      synchronized (this) {
        if (now() - renewed > ttl) {
          isRegistered = false;
        }
      }
      attempt = now() - began > 5 ? 0 : attempt + 1;
      Backoff.sleep(attempt, null, 0.5);
    }
  }

  /** Waits until the lease is due for renewal. Returns false if the content is to be registered anew. */
  private synchronized boolean awaitDue() throws InterruptedException {
    while (!isWanted && !isClosed) {
      double left = renewed + ttl / 3 - now();
      if (left <= 0) {
        return true;
      }
      wait(Math.max(1, (long) (left * 1000)));
    }
    return false;
  }

  private static double now() {
    return System.nanoTime() / 1e9;
  }

  /** Stops renewing without deregistering: the instance may belong to another owner. */
  void abandon() {
    synchronized (this) {
      isClosed = true;
      isRegistered = false;
      notifyAll();
    }
    thread.interrupt();
    try {
      thread.join(2_000);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Stops renewing and deregisters, within about two seconds; if the registry is unreachable the lease expires. Idempotent. */
  @Override
  public void close() {
    synchronized (this) {
      if (isClosed) {
        return;
      }
    }
    abandon();
    client.deregister(this);
  }
}
