package dev.archon.sdk.channel;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Locale;
import java.util.regex.Pattern;

/** Addresses as host:port; the host of IPv6 is in brackets. */
public final class Addresses {
  private static final Pattern WITH_PORT = Pattern.compile("(\\[[^\\]]*\\]|[^:]*):[^:]*");
  private static final Pattern IPV4 = Pattern.compile("[0-9]{1,3}(\\.[0-9]{1,3}){3}");

  private Addresses() {}

  /** Returns the host of an address, without brackets. */
  public static String host(String target) {
    int colon = target.lastIndexOf(':');
    String host = colon < 0 ? target : target.substring(0, colon);
    return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
  }

  /** Returns the port of an address; -1 if it has none. */
  public static int port(String target) {
    try {
      return Integer.parseInt(target.substring(target.lastIndexOf(':') + 1));
    } catch (NumberFormatException none) {
      return -1;
    }
  }

  /** Returns host:port; an address of IPv6 gets its brackets. */
  public static String withPort(String host, int port) {
    boolean isBare = host.indexOf(':') != host.lastIndexOf(':') && !host.startsWith("[");
    return (isBare ? "[" + host + "]" : host) + ":" + port;
  }

  /** Returns whether an address is host:port, and not a host alone. */
  public static boolean hasPort(String address) {
    return WITH_PORT.matcher(address).matches();
  }

  /** Returns whether a host is an IP address. */
  public static boolean isIp(String host) {
    return IPV4.matcher(host).matches() || host.indexOf(':') >= 0;
  }

  /** Returns whether a host is this machine: localhost, a name below it, or a loopback address. */
  public static boolean isLoopback(String host) {
    String name = host.replaceAll("^\\[|\\]$", "").replaceAll("\\.$", "").toLowerCase(Locale.ROOT);
    if (name.equals("localhost") || name.endsWith(".localhost")) {
      return true;
    }
    try {
      return isIp(name) && InetAddress.getByName(name).isLoopbackAddress();
    } catch (UnknownHostException malformed) {
      return false;
    }
  }
}
