/** The names by which members of a mesh know each other: roles, capabilities and versions. */
import { InvalidArgument } from "./errors.js";

const ROLE = /^[a-z][a-z0-9-]{0,62}$/;
const CAPABILITY = /^[a-z0-9][a-z0-9._-]{0,127}$/;
const VERSION = /^([0-9]{1,9}(\.[0-9]{1,9}){0,5})?$/;

/** Throws InvalidArgument if a name of a role is one that registries refuse. */
export function checkRole(name: string): void {
  if (ROLE.test(name)) return;
  throw new InvalidArgument(
    `invalid role name '${name.slice(0, 80)}': use 1 to 63 lower case letters a to z, digits and dashes, beginning with a letter`,
  );
}

/** Throws InvalidArgument if an id of a capability is one that registries refuse. */
export function checkCapability(name: string): void {
  if (CAPABILITY.test(name)) return;
  throw new InvalidArgument(
    `invalid capability '${name.slice(0, 80)}': use 1 to 128 lower case letters a to z, digits, dots, dashes and underscores, ` +
      "beginning with a letter or a digit",
  );
}

/** Throws InvalidArgument if a version is not made of dotted numbers. */
export function checkVersion(version: string): void {
  if (VERSION.test(version)) return;
  throw new InvalidArgument(`invalid version '${version.slice(0, 80)}': use dotted numbers, such as 1.2.0`);
}
