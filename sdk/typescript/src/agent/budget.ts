/** The slice of its run's budget that an attempt may spend. */
import { create } from "@bufbuild/protobuf";
import { BudgetSchema, type Budget } from "../api/archon/api/common/v1/common_pb.js";
import type { Usage } from "../types/usage.js";
import { toInt64 } from "../wire.js";

type Amounts = [tokens: number, cost: number, calls: number];

function amounts(budget: Budget | undefined): Amounts {
  if (budget === undefined) return [0, 0, 0];
  return [Number(budget.maxTokens), Number(budget.maxCostMicroUsd), Number(budget.maxModelCalls)];
}

/** Limits the kinds that the first slice names. Reservations count as spent until they are settled. */
export class AttemptBudget {
  readonly limited: boolean;
  readonly #granted: Amounts;
  readonly #limits: boolean[];
  readonly #reserved: Amounts[] = [];

  constructor(slice: Budget | undefined) {
    this.limited = slice !== undefined;
    this.#granted = amounts(slice);
    this.#limits = this.#granted.map((amount) => amount > 0);
  }

  /** Adds a further slice. */
  add(budget: Budget): void {
    amounts(budget).forEach((amount, kind) => {
      this.#granted[kind as 0 | 1 | 2] += amount;
    });
  }

  /** Returns the grant needed before a call of this size; undefined if the slice covers it. */
  missing(spent: Usage, wanted: Amounts): Budget | undefined {
    const used: Amounts = [
      (spent.inputTokens ?? 0) + (spent.outputTokens ?? 0),
      spent.costMicroUsd ?? 0,
      spent.modelCalls ?? 0,
    ];
    const more = ([0, 1, 2] as const).map((kind) => {
      if (!this.#limits[kind]) return 0;
      const reserved = this.#reserved.reduce((sum, each) => sum + each[kind], 0);
      return Math.max(0, used[kind] + reserved + wanted[kind] - this.#granted[kind]);
    });
    if (more.every((amount) => amount === 0)) return undefined;
    const [tokens = 0, cost = 0, calls = 0] = more;
    return create(BudgetSchema, {
      maxTokens: toInt64(Math.ceil(tokens), "tokens"),
      maxCostMicroUsd: toInt64(Math.ceil(cost), "costMicroUsd"),
      maxModelCalls: toInt64(Math.ceil(calls), "modelCalls"),
    });
  }

  /** Reserves the size of a call that is about to be made. */
  reserve(wanted: Amounts): void {
    if (this.limited) this.#reserved.push(wanted);
  }

  /** Releases the oldest reservation: its call was made, and the usage counts instead. */
  settle(): void {
    this.#reserved.shift();
  }
}
