import { expect, test } from "vitest";
import { rowsInSight } from "./window.js";

test("the rows in sight are those of the position, and some spare ones", () => {
  expect(rowsInSight(0, 300, 30, 1_000, 5)).toEqual([0, 15]);
  expect(rowsInSight(3_000, 300, 30, 1_000, 5)).toEqual([95, 115]);
  expect(rowsInSight(29_700, 300, 30, 1_000, 5)).toEqual([985, 1_000]);
});

test("a list that has become shorter has rows in sight", () => {
  expect(rowsInSight(30_000, 300, 30, 3)).toEqual([0, 3]);
  expect(rowsInSight(0, 300, 30, 0)).toEqual([0, 0]);
});
