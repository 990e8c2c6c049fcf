import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { GraphSchema, RegistrationSchema } from "@api/archon/api/registry/v1/registry_pb.js";
import { rolesOf } from "./roles.js";
import { placeRoles } from "./roleGraph.js";

const instance = (role: string, instanceId: string, version = "", maxTasks = 0) => create(RegistrationSchema, { role, instanceId, version, maxTasks });

describe("roles", () => {
  it("have their instances, versions and slots", () => {
    const roles = rolesOf([instance("writer", "b", "1.1"), instance("writer", "a", "1.0", 3), instance("editor", "c")]);
    expect(roles.map((role) => [role.name, role.versions, role.slots, role.instances.map((each) => each.instanceId)])).toEqual([
      ["editor", [], 1, ["c"]],
      ["writer", ["1.0", "1.1"], 4, ["a", "b"]],
    ]);
  });

  it("with names of the language's objects are roles", () => {
    expect(rolesOf([instance("constructor", "a"), instance("toString", "b")]).map((role) => role.name)).toEqual(["constructor", "toString"]);
  });
});

describe("the graph", () => {
  it("places the roles that stand on edges, upstream on the left", () => {
    const placed = placeRoles(create(GraphSchema, { roles: ["a", "b", "c"], edges: [{ upstream: "a", downstream: "b", pinned: true }] }));
    const at = (role: string): number => placed?.nodes.find((node) => node.role === role)?.x ?? NaN;
    expect(placed?.nodes).toHaveLength(2);
    expect(at("a")).toBeLessThan(at("b"));
    expect(placed?.edges[0]).toMatchObject({ pinned: true, declared: false });
  });

  it("is no drawing without an edge", () => expect(placeRoles(create(GraphSchema, { roles: ["a"] }))).toBeUndefined());
});
