package dev.archon.sdk.channel;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.X509Certificate;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLPeerUnverifiedException;
import javax.net.ssl.SSLSession;

/**
 * Verifies who calls an agent, by a token of the mesh or the certificate of the connection, and whether it may.
 *
 * <p>The keys come from ARCHON_KEYS, from the folder of the mesh on this machine, or from the registry's answer. An agent with a
 * token refuses every caller before it knows the keys; one without a token and a certificate lets every caller in.
 */
public final class Authenticator {
  private static final int MAX_VERIFIED = 4_096;
  private static final Set<Principal.Kind> MEMBERS =
      Set.of(Principal.Kind.SERVICE, Principal.Kind.ADMIN, Principal.Kind.AGENT);
  private static final Set<Principal.Kind> TOOL_USERS =
      Set.of(Principal.Kind.SERVICE, Principal.Kind.ADMIN, Principal.Kind.AGENT, Principal.Kind.OPERATOR);
  private static final Map<String, Set<Principal.Kind>> POLICY =
      Map.of(
          "archon.api.agent.v1.AgentService/Describe", Set.of(Principal.Kind.values()),
          "archon.api.agent.v1.AgentService/RunTask", Set.of(Principal.Kind.SERVICE, Principal.Kind.ADMIN),
          "archon.api.agent.v1.AgentService/Session", Set.of(Principal.Kind.SERVICE),
          "archon.api.agent.v1.AgentService/Deliver", MEMBERS,
          "archon.api.tool.v1.ToolService/ListTools", Set.of(Principal.Kind.values()),
          "archon.api.tool.v1.ToolService/LeaseTool", TOOL_USERS,
          "archon.api.tool.v1.ToolService/ExecuteTool", TOOL_USERS,
          "archon.api.tool.v1.ToolService/RevokeLease", TOOL_USERS);

  private final Environment environment;
  private final String registry;
  private final CertificateFolder certificate;
  private Path keyFile;
  private Object keyStamp;
  private long keysCheckedAt;
  private KeySet fileKeys;
  private KeySet toldKeys;
  private KeySet verifiedBy;
  private String tenant = "";
  private final Map<String, Principal> verified =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Principal> eldest) {
          return size() > MAX_VERIFIED;
        }
      };

  /** Makes the authenticator of an agent that registers at {@code registry}; empty: nowhere. */
  public Authenticator(String registry, Environment environment) {
    this.environment = environment;
    this.registry = registry;
    this.certificate = CertificateFolder.configured(environment);
    String configured = environment.get("ARCHON_KEYS");
    if (!configured.isEmpty()) {
      keyFile = Path.of(configured);
      if (keysOfFile() == null) {
        String text = "cannot use the file of public keys " + configured;
        throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).build();
      }
    }
  }

  /** Returns the certificate of the agent's server; null if connections are not encrypted. */
  public CertificateFolder certificate() {
    return certificate;
  }

  /** Takes in the answer of the registry: a key set as JSON, empty if it has none, and the agent's tenant. */
  public synchronized void tell(String keysJson, String ownTenant) {
    tenant = ownTenant.isEmpty() ? Principal.DEFAULT_TENANT : ownTenant;
    if (!keysJson.isEmpty()) {
      try {
        toldKeys = KeySet.parse(keysJson);
      } catch (ArchonException malformed) {
        System.getLogger("dev.archon.sdk")
            .log(System.Logger.Level.WARNING, "the keys that the registry has sent are not used: " + malformed.getMessage());
      }
    }
  }

  /** Returns the caller of a call; null if this mesh has neither keys nor certificates. Throws UNAUTHENTICATED reasons. */
  synchronized Principal caller(ServerCall<?, ?> call, Metadata headers) {
    String method = call.getMethodDescriptor().getFullMethodName();
    if (method.startsWith("grpc.health.")) {
      return null;
    }
    KeySet keys = keys();
    if (keys != verifiedBy) {
      verified.clear();
      verifiedBy = keys;
    }
    String authorization = headers.get(Outgoing.AUTHORIZATION);
    Principal principal;
    if (certificate != null && (keys == null || authorization == null)) {
      principal = member(call.getAttributes().get(Grpc.TRANSPORT_ATTR_SSL_SESSION));
    } else if (keys == null) {
      return null;
    } else {
      principal = bearer(authorization == null ? "" : authorization, keys);
    }
    checkAllowed(method, principal);
    return principal;
  }

  /** Throws TOKEN_EXPIRED, TOKEN_REVOKED or CERTIFICATE_REFUSED if the credentials of a call in progress are over. */
  synchronized void check(Principal principal) {
    KeySet keys = keys();
    if (keys != null && keys.revoked().contains(principal.tokenId())) {
      throw ArchonException.of(Reasons.TOKEN_REVOKED, "the token of this call was revoked").build();
    }
    if (System.currentTimeMillis() / 1000.0 >= principal.expires()) {
      boolean isToken = !principal.tokenId().isEmpty();
      String text = "the " + (isToken ? "token" : "certificate") + " of this call has expired";
      throw ArchonException.of(isToken ? Reasons.TOKEN_EXPIRED : Reasons.CERTIFICATE_REFUSED, text).build();
    }
  }

  private Principal bearer(String authorization, KeySet keys) {
    boolean isBearer = authorization.regionMatches(true, 0, "bearer ", 0, 7);
    String token = isBearer ? authorization.substring(7).strip() : "";
    if (token.isEmpty()) {
      String text =
          "this member of the mesh " + keys.issuer() + " needs a token: `archon token`, in the folder of the mesh, prints one";
      throw ArchonException.of(Reasons.TOKEN_MISSING, text).build();
    }
    Principal known = verified.get(token);
    if (known != null && System.currentTimeMillis() / 1000.0 < known.expires()) {
      return known;
    }
    Principal principal = keys.verify(token, "agents");
    verified.put(token, principal);
    return principal;
  }

  private Principal member(SSLSession session) {
    try {
      if (session != null && session.getPeerCertificates()[0] instanceof X509Certificate leaf) {
        SpiffeId id = SpiffeId.of(leaf);
        if (!id.mesh().equals(certificate.identity().mesh())) {
          throw refused("the certificate of the connection is of the mesh " + id.mesh());
        }
        double expires = leaf.getNotAfter().getTime() / 1000.0;
        if (System.currentTimeMillis() / 1000.0 >= expires) {
          throw refused("the certificate of the connection has expired");
        }
        return new Principal(id.kind(), id.name(), id.tenant(), Set.of(id.name()), expires, "");
      }
    } catch (SSLPeerUnverifiedException none) {
      throw refused("the connection has no certificate");
    }
    throw refused("the connection has no certificate");
  }

  private static ArchonException refused(String text) {
    return ArchonException.of(Reasons.CERTIFICATE_REFUSED, text).build();
  }

  private void checkAllowed(String method, Principal principal) {
    Set<Principal.Kind> kinds = POLICY.get(method);
    boolean isReflection = kinds == null && method.startsWith("grpc.reflection.");
    if (!isReflection && (kinds == null || !kinds.contains(principal.kind()))) {
      String name = method.substring(method.lastIndexOf('/') + 1);
      String text = principal.identity() + " is of kind " + principal.kind().label() + " and may not call " + name;
      throw ArchonException.of(Reasons.PERMISSION_DENIED, text).metadata("method", method).build();
    }
    if (registry.isEmpty() || principal.isOfAllTenants()) {
      return;
    }
    if (tenant.isEmpty()) {
      throw notRegistered();
    }
    if (!principal.tenant().equals(tenant)) {
      String text = principal.identity() + " is of another tenant than this agent";
      throw ArchonException.of(Reasons.PERMISSION_DENIED, text).build();
    }
  }

  private static ArchonException notRegistered() {
    return ArchonException.of(Reasons.UNAVAILABLE, "this agent has not registered yet").retryDelay(1.0).build();
  }

  private KeySet keys() {
    if (keyFile == null && !registry.isEmpty()) {
      MeshFolder.candidates(environment).stream()
          .filter(folder -> Files.exists(folder.keysFile()) && folder.serves(registry))
          .findFirst()
          .ifPresent(folder -> keyFile = folder.keysFile());
    }
    if (keyFile != null) {
      return keysOfFile();
    }
    if (toldKeys == null && !registry.isEmpty() && Credentials.hasOwn(environment)) {
      if (tenant.isEmpty()) {
        throw notRegistered();
      }
    }
    return toldKeys;
  }

  private KeySet keysOfFile() {
    long now = System.nanoTime();
    if (fileKeys != null && now - keysCheckedAt < 1_000_000_000L) {
      return fileKeys;
    }
    keysCheckedAt = now;
    try {
      Object stamp = Files.getLastModifiedTime(keyFile) + " " + Files.size(keyFile);
      if (!stamp.equals(keyStamp)) {
        fileKeys = KeySet.parse(Files.readString(keyFile));
        keyStamp = stamp;
      }
    } catch (IOException | ArchonException unusable) {
      if (fileKeys == null) {
        throw ArchonException.of(Reasons.UNAVAILABLE, "no call can be let in: the keys cannot be read").build();
      }
    }
    return fileKeys;
  }
}
