package dev.archon.sdk.channel;

import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.netty.handler.ssl.ClientAuth;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslProvider;
import java.net.Socket;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509ExtendedTrustManager;

/** Contexts of mutual TLS whose certificate is renewed without a restart: each handshake reads the folder. */
final class Tls {
  private Tls() {}

  static SslContext client(CertificateFolder folder) throws SSLException {
    SslContextBuilder builder = SslContextBuilder.forClient().keyManager(new Keys(folder));
    return GrpcSslContexts.configure(builder.trustManager(new Authorities(folder)), SslProvider.JDK).build();
  }

  static SslContext server(CertificateFolder folder) throws SSLException {
    SslContextBuilder builder = SslContextBuilder.forServer(new Keys(folder)).trustManager(new Authorities(folder));
    return GrpcSslContexts.configure(builder.clientAuth(ClientAuth.REQUIRE), SslProvider.JDK).build();
  }

  private static final class Keys extends X509ExtendedKeyManager {
    private final CertificateFolder folder;

    Keys(CertificateFolder folder) {
      this.folder = folder;
    }

    @Override
    public String[] getClientAliases(String type, Principal[] issuers) {
      return folder.read().keys().getClientAliases(type, issuers);
    }

    @Override
    public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
      return folder.read().keys().chooseClientAlias(types, issuers, socket);
    }

    @Override
    public String chooseEngineClientAlias(String[] types, Principal[] issuers, SSLEngine engine) {
      return folder.read().keys().chooseEngineClientAlias(types, issuers, engine);
    }

    @Override
    public String[] getServerAliases(String type, Principal[] issuers) {
      return folder.read().keys().getServerAliases(type, issuers);
    }

    @Override
    public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
      return folder.read().keys().chooseServerAlias(type, issuers, socket);
    }

    @Override
    public String chooseEngineServerAlias(String type, Principal[] issuers, SSLEngine engine) {
      return folder.read().keys().chooseEngineServerAlias(type, issuers, engine);
    }

    @Override
    public X509Certificate[] getCertificateChain(String alias) {
      return folder.read().keys().getCertificateChain(alias);
    }

    @Override
    public PrivateKey getPrivateKey(String alias) {
      return folder.read().keys().getPrivateKey(alias);
    }
  }

  private static final class Authorities extends X509ExtendedTrustManager {
    private final CertificateFolder folder;

    Authorities(CertificateFolder folder) {
      this.folder = folder;
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
      folder.read().authorities().checkClientTrusted(chain, type);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) throws CertificateException {
      folder.read().authorities().checkClientTrusted(chain, type, socket);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) throws CertificateException {
      folder.read().authorities().checkClientTrusted(chain, type, engine);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
      folder.read().authorities().checkServerTrusted(chain, type);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) throws CertificateException {
      folder.read().authorities().checkServerTrusted(chain, type, socket);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) throws CertificateException {
      folder.read().authorities().checkServerTrusted(chain, type, engine);
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return folder.read().authorities().getAcceptedIssuers();
    }
  }
}
