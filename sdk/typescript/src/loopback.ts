/** Addresses of this machine. In host:port the host of IPv6 is in brackets: [::1]:7100. */
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";

/** Returns the host of host:port, without brackets. */
export function hostOf(address: string): string {
  const colon = address.lastIndexOf(":");
  return (colon < 0 ? address : address.slice(0, colon)).replace(/^\[|\]$/g, "");
}

/** Returns the port of host:port as text; empty if it has none. */
export function portOf(address: string): string {
  const colon = address.lastIndexOf(":");
  return colon < 0 ? "" : address.slice(colon + 1);
}

/** Whether a host is this machine: localhost, a name below it, or a loopback address. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, "").replace(/\.$/, "").toLowerCase();
  if (bare === "localhost" || bare.endsWith(".localhost")) return true;
  if (isIP(bare) === 4) return bare.startsWith("127.");
  return bare === "::1" || bare === "0:0:0:0:0:0:0:1" || bare.startsWith("::ffff:127.");
}

/** Returns the loopback address of this machine for host:port: that of IPv4, or of IPv6 if the machine has that alone. */
export function loopbackHost(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const hasV4 = addresses.some((each) => each.family === "IPv4" && each.internal);
  const hasV6 = addresses.some((each) => each.address === "::1");
  return !hasV4 && hasV6 ? "[::1]" : "127.0.0.1";
}

/** Returns host:port; an address of IPv6 gets its brackets. */
export function withPort(host: string, port: number): string {
  return host.split(":").length > 2 && !host.startsWith("[") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether an address is host:port, and not a host alone. */
export function hasPort(address: string): boolean {
  return /^(\[[^\]]*\]|[^:]*):[^:]*$/.test(address);
}
