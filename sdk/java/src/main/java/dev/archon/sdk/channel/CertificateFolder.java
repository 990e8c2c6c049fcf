package dev.archon.sdk.channel;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * The certificate of this process for mutual TLS: a folder with tls.crt, tls.key and ca.crt, the layout of a secret of
 * cert-manager. Files that were replaced are used from the next connection on, within a second.
 */
public final class CertificateFolder {
  private static final long INTERVAL = 1_000_000_000L;

  /** A certificate as it was read, with what TLS needs of it. */
  record Own(SpiffeId identity, X509ExtendedKeyManager keys, X509ExtendedTrustManager authorities) {}

  private final Path folder;
  private long checkedAt;
  private List<Object> stamp = List.of();
  private Own own;

  /** Names the folder, which is read at the first use. */
  public CertificateFolder(Path folder) {
    this.folder = folder;
  }

  /**
   * Returns the certificate for connections to a target: the one in ARCHON_TLS, else the user's of the mesh on this machine that
   * has a member there; null if they are not encrypted. Throws FAILED_PRECONDITION if it cannot be used.
   */
  public static CertificateFolder own(String target, Environment environment) {
    CertificateFolder configured = configured(environment);
    if (configured != null || !Addresses.isLoopback(Addresses.host(target))) {
      return configured;
    }
    return MeshFolder.candidates(environment).stream()
        .filter(candidate -> candidate.encrypts(target))
        .findFirst()
        .map(candidate -> new CertificateFolder(candidate.userCertificate()))
        .orElse(null);
  }

  /** Returns the folder that ARCHON_TLS names; null if it names none. Throws FAILED_PRECONDITION if it cannot be used. */
  public static CertificateFolder configured(Environment environment) {
    String path = environment.get("ARCHON_TLS");
    if (path.isEmpty()) {
      return null;
    }
    CertificateFolder folder = new CertificateFolder(Path.of(path));
    folder.read();
    return folder;
  }

  /** Returns the id in the certificate. */
  public SpiffeId identity() {
    return read().identity();
  }

  /** Returns the certificate. Files that cannot be used leave the last one in force; throws if there was none. */
  synchronized Own read() {
    long now = System.nanoTime();
    if (own != null && now - checkedAt < INTERVAL) {
      return own;
    }
    checkedAt = now;
    try {
      List<Object> current = new ArrayList<>();
      for (String name : List.of("tls.crt", "tls.key", "ca.crt")) {
        current.add(Files.getLastModifiedTime(folder.resolve(name)));
        current.add(Files.size(folder.resolve(name)));
      }
      if (!current.equals(stamp)) {
        own = load();
        stamp = current;
      }
    } catch (IOException | GeneralSecurityException | IllegalArgumentException | ArchonException error) {
      if (own == null) {
        String text = "cannot use the certificate in " + folder + ": " + error.getMessage();
        throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).cause(error).build();
      }
    }
    return own;
  }

  private Own load() throws IOException, GeneralSecurityException {
    X509Certificate[] chain = certificates("tls.crt");
    PrivateKey key = key(Files.readString(folder.resolve("tls.key")));
    KeyStore keys = KeyStore.getInstance("PKCS12");
    keys.load(null, null);
    keys.setKeyEntry("own", key, new char[0], chain);
    KeyManagerFactory keyFactory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keyFactory.init(keys, new char[0]);
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    int count = 0;
    for (X509Certificate authority : certificates("ca.crt")) {
      trusted.setCertificateEntry("ca" + count++, authority);
    }
    TrustManagerFactory trustFactory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trustFactory.init(trusted);
    return new Own(
        SpiffeId.of(chain[0]),
        only(keyFactory.getKeyManagers(), X509ExtendedKeyManager.class),
        only(trustFactory.getTrustManagers(), X509ExtendedTrustManager.class));
  }

  private static <T> T only(Object[] managers, Class<T> kind) throws GeneralSecurityException {
    for (Object manager : managers) {
      if ((manager instanceof KeyManager || manager instanceof TrustManager) && kind.isInstance(manager)) {
        return kind.cast(manager);
      }
    }
    throw new GeneralSecurityException("this Java has no manager for X.509 certificates");
  }

  private X509Certificate[] certificates(String name) throws IOException, GeneralSecurityException {
    byte[] pem = Files.readAllBytes(folder.resolve(name));
    X509Certificate[] certificates =
        CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem)).stream()
            .map(X509Certificate.class::cast)
            .toArray(X509Certificate[]::new);
    if (certificates.length == 0) {
      throw new GeneralSecurityException(name + " has no certificate");
    }
    return certificates;
  }

  private static PrivateKey key(String pem) throws GeneralSecurityException {
    String body = pem.replaceAll("(?s).*-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----.*", "$1");
    if (body.equals(pem)) {
      throw new GeneralSecurityException("tls.key is no private key in PKCS #8");
    }
    PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(body));
    GeneralSecurityException last = null;
    for (String algorithm : List.of("EC", "RSA", "EdDSA")) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(spec);
      } catch (GeneralSecurityException other) {
        last = other;
      }
    }
    throw last;
  }
}
