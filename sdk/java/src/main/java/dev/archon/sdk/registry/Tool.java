package dev.archon.sdk.registry;

/**
 * A tool of a role, with the fields of an MCP tool; {@code readOnly} to {@code openWorld} are hints. With a {@code share}, other
 * agents may lease it; null: they may not.
 */
public record Tool(
    String name,
    String title,
    String description,
    String inputSchemaJson,
    String outputSchemaJson,
    boolean readOnly,
    boolean destructive,
    boolean idempotent,
    boolean openWorld,
    ToolShare share) {
  /** Returns a tool with the JSON Schema of its arguments. */
  public static Tool of(String name, String description, String inputSchemaJson) {
    return new Tool(name, "", description, inputSchemaJson, "", false, false, false, false, null);
  }

  /** Returns this tool, whose calls may be repeated. */
  public Tool asIdempotent() {
    return new Tool(name, title, description, inputSchemaJson, outputSchemaJson, readOnly, destructive, true, openWorld, share);
  }

  /** Returns this tool with the terms on which it is shared. */
  public Tool withShare(ToolShare value) {
    return new Tool(
        name, title, description, inputSchemaJson, outputSchemaJson, readOnly, destructive, idempotent, openWorld, value);
  }
}
