package dev.archon.sdk.channel;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.Map;

/** The settings of a process by their {@code ARCHON_*} names. */
public final class Environment {
  private final Map<String, String> variables;

  /** Reads from a map. */
  public Environment(Map<String, String> variables) {
    this.variables = Map.copyOf(variables);
  }

  /** Returns the environment of this process. */
  public static Environment own() {
    return new Environment(System.getenv());
  }

  /** Returns a variable; empty if it is not set. */
  public String get(String name) {
    return variables.getOrDefault(name, "");
  }

  /** Returns a variable, or the default if it is not set or empty. */
  public String get(String name, String other) {
    String value = get(name);
    return value.isEmpty() ? other : value;
  }

  /** Returns whether a variable is set, empty or not. */
  public boolean has(String name) {
    return variables.containsKey(name);
  }

  /** Returns a number within bounds. Throws INVALID_ARGUMENT with the name of the variable. */
  public double number(String name, double other, double least, double most) {
    String text = get(name);
    if (text.isEmpty()) {
      return other;
    }
    double value;
    try {
      value = Double.parseDouble(text);
    } catch (NumberFormatException malformed) {
      throw fault(name, text, "not a number");
    }
    if (!(value >= least && value <= most)) {
      throw fault(name, text, String.format("must be %s to %s", shown(least), shown(most)));
    }
    return value;
  }

  /** Returns a whole number within bounds; 0 for what Kubernetes sets for a Service (tcp://...). */
  public int whole(String name, int other, int least, int most) {
    if (get(name).startsWith("tcp://")) {
      return 0;
    }
    double value = number(name, other, least, most);
    if (value != Math.rint(value)) {
      throw fault(name, get(name), "not a whole number");
    }
    return (int) value;
  }

  private static String shown(double value) {
    return value == Math.rint(value) ? Long.toString((long) value) : Double.toString(value);
  }

  private static ArchonException fault(String name, String value, String why) {
    String text = "environment variable " + name + " is '" + value + "': " + why;
    return ArchonException.of(Reasons.INVALID_ARGUMENT, text).violation(name, why).build();
  }
}
