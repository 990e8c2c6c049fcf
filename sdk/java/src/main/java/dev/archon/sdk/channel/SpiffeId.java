package dev.archon.sdk.channel;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.security.cert.CertificateParsingException;
import java.security.cert.X509Certificate;
import java.util.Collection;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The SPIFFE id of a member: of a mesh, in a tenant, of a kind, with a name. */
public record SpiffeId(String mesh, String tenant, Principal.Kind kind, String name) {
  private static final String SEGMENT = "([A-Za-z0-9][A-Za-z0-9._@-]{0,254})";
  private static final Pattern ID =
      Pattern.compile(
          "spiffe://([a-z0-9][a-z0-9._-]{0,254})/ns/" + SEGMENT + "/(viewer|auditor|operator|admin|agent|service)/" + SEGMENT);

  /** Reads an id. Throws INVALID_ARGUMENT if it is not the id of a member of a mesh. */
  public static SpiffeId parse(String uri) {
    Matcher match = ID.matcher(uri);
    if (!match.matches()) {
      String text = "'" + uri + "' is not the id of a member: spiffe://MESH/ns/TENANT/KIND/NAME";
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, text).build();
    }
    return new SpiffeId(match.group(1), match.group(2), Principal.Kind.of(match.group(3)), match.group(4));
  }

  /** Returns the id of a certificate. Throws FAILED_PRECONDITION if it has none, or several. */
  public static SpiffeId of(X509Certificate certificate) {
    List<String> uris = List.of();
    try {
      Collection<List<?>> names = certificate.getSubjectAlternativeNames();
      if (names != null) {
        uris = names.stream().filter(name -> name.get(0).equals(6)).map(name -> (String) name.get(1)).toList();
      }
    } catch (CertificateParsingException malformed) {
      uris = List.of();
    }
    if (uris.size() != 1) {
      String text = "the certificate has " + uris.size() + " URIs, and needs one: spiffe://MESH/ns/TENANT/KIND/NAME";
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).build();
    }
    return parse(uris.get(0));
  }

  /** Returns the same as a name of DNS, such as registry.service.default.mesh. */
  public String dnsName() {
    return name + "." + kind.label() + "." + tenant + "." + mesh;
  }

  @Override
  public String toString() {
    return "spiffe://" + mesh + "/ns/" + tenant + "/" + kind.label() + "/" + name;
  }
}
