import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { TaskState } from "@api/archon/api/common/v1/common_pb.js";
import { filterOf, isFiltered } from "./filters.js";

test("an address has the filter of the list", () => {
  const filter = filterOf(new URLSearchParams("text=%20book%20&session=s&state=failed&since=1h"), 10_000_000);
  expect(filter.text).toBe("book");
  expect(filter.sessionId).toBe("s");
  expect(filter.states).toEqual([TaskState.FAILED, TaskState.REJECTED]);
  expect(filter.createdSince && timestampMs(filter.createdSince)).toBe(6_400_000);
});

test("unknown values of an address are left out", () => {
  expect(filterOf(new URLSearchParams("state=constructor&since=toString&until=never"), 0)).toEqual({});
  expect(isFiltered(new URLSearchParams("page=2"))).toBe(false);
  expect(filterOf(new URLSearchParams(`text=${"x".repeat(500)}`), 0).text).toHaveLength(200);
});
