package dev.archon.sdk.agent;

import dev.archon.sdk.types.Budget;
import dev.archon.sdk.types.Part;
import java.util.List;
import java.util.OptionalDouble;

/**
 * A part of a task for a role, or for any role with a capability. {@code timeout} is in seconds, 60 by default; {@code budget}
 * bounds its usage, null: not by itself; {@code checkpoint} is saved with it.
 *
 * <p>The mesh remembers the answer: a later attempt at the task that makes the same delegation gets it at once. Two are the same
 * if they have the same {@code memoKey} or, if that is empty, the same target and input for the n-th time.
 */
public record Delegation(
    String role,
    String capability,
    List<Part> input,
    String memoKey,
    OptionalDouble timeout,
    Budget budget,
    byte[] checkpoint) {
  /** Copies the input. */
  public Delegation {
    input = List.copyOf(input);
  }

  /** Begins a delegation to a role. */
  public static Delegation to(String role, String text) {
    return new Delegation(role, "", List.of(Part.text(text)), "", OptionalDouble.empty(), null, new byte[0]);
  }

  /** Begins a delegation to any role with a capability. */
  public static Delegation toCapability(String capability, String text) {
    return new Delegation("", capability, List.of(Part.text(text)), "", OptionalDouble.empty(), null, new byte[0]);
  }

  /** Returns this delegation with another input. */
  public Delegation withInput(List<Part> parts) {
    return new Delegation(role, capability, parts, memoKey, timeout, budget, checkpoint);
  }

  /** Returns this delegation with a key under which it is remembered. */
  public Delegation withMemoKey(String key) {
    return new Delegation(role, capability, input, key, timeout, budget, checkpoint);
  }

  /** Returns this delegation with a time limit in seconds. */
  public Delegation withTimeout(double seconds) {
    return new Delegation(role, capability, input, memoKey, OptionalDouble.of(seconds), budget, checkpoint);
  }

  /** Returns this delegation with a budget. */
  public Delegation withBudget(Budget value) {
    return new Delegation(role, capability, input, memoKey, timeout, value, checkpoint);
  }

  /** Returns this delegation with a checkpoint of the task. */
  public Delegation withCheckpoint(byte[] data) {
    return new Delegation(role, capability, input, memoKey, timeout, budget, data);
  }
}
