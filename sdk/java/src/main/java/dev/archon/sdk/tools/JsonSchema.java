package dev.archon.sdk.tools;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.archon.sdk.errors.FieldViolation;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * The part of JSON Schema (2020-12) that schemas of tools use: types, enums, bounds, objects, arrays, combinations, and references within
 * the schema. Other keywords are annotations. Nothing is fetched.
 */
final class JsonSchema {
  private static final int MAX_VIOLATIONS = 5;
  private static final int MAX_DEPTH = 64;
  private static final int MAX_WHY = 200;
  private static final Set<String> TYPES = Set.of("null", "boolean", "object", "array", "number", "string", "integer");

  private final JsonElement root;
  private final List<FieldViolation> violations = new ArrayList<>();

  JsonSchema(JsonElement root) {
    this.root = root;
  }

  /** Returns what is wrong with a schema; empty if nothing is. */
  static String fault(JsonElement schema) {
    return fault(schema, 0);
  }

  private static String fault(JsonElement schema, int depth) {
    if (depth > MAX_DEPTH) {
      return "it is nested too deep";
    }
    if (schema.isJsonPrimitive() && schema.getAsJsonPrimitive().isBoolean()) {
      return "";
    }
    if (!schema.isJsonObject()) {
      return "a schema is an object, true or false";
    }
    JsonObject object = schema.getAsJsonObject();
    for (Map.Entry<String, JsonElement> entry : object.entrySet()) {
      String fault = faultOf(entry.getKey(), entry.getValue(), depth);
      if (!fault.isEmpty()) {
        return fault;
      }
    }
    return "";
  }

  private static String faultOf(String keyword, JsonElement value, int depth) {
    switch (keyword) {
      case "type":
        for (JsonElement type : listed(value)) {
          if (!isText(type) || !TYPES.contains(type.getAsString())) {
            return type + " is no type";
          }
        }
        return "";
      case "properties", "$defs", "patternProperties":
        if (!value.isJsonObject()) {
          return keyword + " is no object";
        }
        return first(value.getAsJsonObject().asMap().values(), depth);
      case "allOf", "anyOf", "oneOf", "prefixItems":
        return value.isJsonArray() ? first(value.getAsJsonArray().asList(), depth) : keyword + " is no array";
      case "items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames":
        return fault(value, depth + 1);
      case "required", "enum":
        return value.isJsonArray() ? "" : keyword + " is no array";
      case "pattern":
        try {
          Pattern.compile(value.getAsString());
          return "";
        } catch (PatternSyntaxException | UnsupportedOperationException | IllegalStateException malformed) {
          return "pattern is no regular expression";
        }
      case "$ref":
        return isText(value) && value.getAsString().startsWith("#") ? "" : "it refers to another document";
      default:
        return "";
    }
  }

  private static String first(Iterable<JsonElement> schemas, int depth) {
    for (JsonElement each : schemas) {
      String fault = fault(each, depth + 1);
      if (!fault.isEmpty()) {
        return fault;
      }
    }
    return "";
  }

  /** Returns the violations of a value, at most five. */
  List<FieldViolation> violations(JsonElement value) {
    check(root, value, "", 0);
    return violations;
  }

  private boolean matches(JsonElement schema, JsonElement value, String path, int depth) {
    int before = violations.size();
    check(schema, value, path, depth);
    boolean matched = violations.size() == before;
    while (violations.size() > before) {
      violations.remove(violations.size() - 1);
    }
    return matched;
  }

  private void add(String path, String why) {
    if (violations.size() < MAX_VIOLATIONS) {
      violations.add(new FieldViolation(path.isEmpty() ? "(all)" : path, why.substring(0, Math.min(why.length(), MAX_WHY))));
    }
  }

  private void check(JsonElement schema, JsonElement value, String path, int depth) {
    if (depth > MAX_DEPTH) {
      add(path, "nested too deep");
    } else if (schema.isJsonPrimitive()) {
      if (!schema.getAsBoolean()) {
        add(path, "is not allowed");
      }
    } else {
      schema.getAsJsonObject().entrySet().forEach(entry -> keyword(schema, entry.getKey(), entry.getValue(), value, path, depth));
    }
  }

  private void keyword(JsonElement schema, String keyword, JsonElement rule, JsonElement value, String path, int depth) {
    switch (keyword) {
      case "$ref" -> {
        JsonElement target = resolve(rule.getAsString());
        if (target == null) {
          add(path, "the schema refers to what is not there");
        } else {
          check(target, value, path, depth + 1);
        }
      }
      case "type" -> {
        if (listed(rule).stream().noneMatch(type -> isOf(type.getAsString(), value))) {
          add(path, shown(value) + " is not of type " + rule);
        }
      }
      case "enum" -> {
        if (!rule.getAsJsonArray().contains(value)) {
          add(path, shown(value) + " is not one of " + rule);
        }
      }
      case "const" -> {
        if (!rule.equals(value)) {
          add(path, rule + " was expected");
        }
      }
      case "allOf" -> rule.getAsJsonArray().forEach(each -> check(each, value, path, depth + 1));
      case "anyOf", "oneOf" -> {
        long count = rule.getAsJsonArray().asList().stream().filter(each -> matches(each, value, path, depth + 1)).count();
        if (count == 0 || (keyword.equals("oneOf") && count > 1)) {
          add(path, shown(value) + " matches " + count + " of the schemas in " + keyword);
        }
      }
      case "not" -> {
        if (matches(rule, value, path, depth + 1)) {
          add(path, shown(value) + " matches what it must not match");
        }
      }
      case "if" -> {
        String branch = matches(rule, value, path, depth + 1) ? "then" : "else";
        if (schema.getAsJsonObject().has(branch)) {
          check(schema.getAsJsonObject().get(branch), value, path, depth + 1);
        }
      }
      default -> byType(schema.getAsJsonObject(), keyword, rule, value, path, depth);
    }
  }

  private void byType(JsonObject schema, String keyword, JsonElement rule, JsonElement value, String path, int depth) {
    if (value.isJsonObject()) {
      inObject(schema, keyword, rule, value.getAsJsonObject(), path, depth);
    } else if (value.isJsonArray()) {
      inArray(keyword, rule, value.getAsJsonArray(), path, depth);
    } else if (isText(value)) {
      inText(keyword, rule, value.getAsString(), path);
    } else if (isOf("number", value)) {
      inNumber(keyword, rule, value.getAsBigDecimal(), path);
    }
  }

  private void inObject(JsonObject schema, String keyword, JsonElement rule, JsonObject value, String path, int depth) {
    switch (keyword) {
      case "properties" ->
          rule.getAsJsonObject().entrySet().stream()
              .filter(entry -> value.has(entry.getKey()))
              .forEach(entry -> check(entry.getValue(), value.get(entry.getKey()), below(path, entry.getKey()), depth + 1));
      case "required" ->
          rule.getAsJsonArray().asList().stream()
              .map(JsonElement::getAsString)
              .filter(name -> !value.has(name))
              .forEach(name -> add(path, "'" + name + "' is a required property"));
      case "additionalProperties" -> {
        Set<String> named = schema.has("properties") ? schema.getAsJsonObject("properties").keySet() : Set.of();
        value.entrySet().stream()
            .filter(entry -> !named.contains(entry.getKey()) && !isPatterned(schema, entry.getKey()))
            .forEach(entry -> check(rule, entry.getValue(), below(path, entry.getKey()), depth + 1));
      }
      case "patternProperties" ->
          rule.getAsJsonObject().entrySet()
              .forEach(
                  each ->
                      value.entrySet().stream()
                          .filter(entry -> Pattern.compile(each.getKey()).matcher(entry.getKey()).find())
                          .forEach(entry -> check(each.getValue(), entry.getValue(), below(path, entry.getKey()), depth + 1)));
      case "minProperties" -> bound(value.size() >= rule.getAsInt(), path, "has too few properties");
      case "maxProperties" -> bound(value.size() <= rule.getAsInt(), path, "has too many properties");
      default -> {}
    }
  }

  private static boolean isPatterned(JsonObject schema, String name) {
    return schema.has("patternProperties")
        && schema.getAsJsonObject("patternProperties").keySet().stream().anyMatch(each -> Pattern.compile(each).matcher(name).find());
  }

  private void inArray(String keyword, JsonElement rule, JsonArray value, String path, int depth) {
    switch (keyword) {
      case "items" -> {
        for (int at = 0; at < value.size(); at++) {
          check(rule, value.get(at), below(path, Integer.toString(at)), depth + 1);
        }
      }
      case "minItems" -> bound(value.size() >= rule.getAsInt(), path, "has too few items");
      case "maxItems" -> bound(value.size() <= rule.getAsInt(), path, "has too many items");
      case "uniqueItems" ->
          bound(!rule.getAsBoolean() || Set.copyOf(value.asList()).size() == value.size(), path, "has equal items");
      default -> {}
    }
  }

  private void inText(String keyword, JsonElement rule, String value, String path) {
    int length = value.codePointCount(0, value.length());
    switch (keyword) {
      case "minLength" -> bound(length >= rule.getAsInt(), path, "is too short");
      case "maxLength" -> bound(length <= rule.getAsInt(), path, "is too long");
      case "pattern" -> bound(Pattern.compile(rule.getAsString()).matcher(value).find(), path, "does not match " + rule);
      default -> {}
    }
  }

  private void inNumber(String keyword, JsonElement rule, BigDecimal value, String path) {
    switch (keyword) {
      case "minimum" -> bound(value.compareTo(rule.getAsBigDecimal()) >= 0, path, value + " is less than the minimum of " + rule);
      case "maximum" -> bound(value.compareTo(rule.getAsBigDecimal()) <= 0, path, value + " is greater than the maximum of " + rule);
      case "exclusiveMinimum" -> bound(value.compareTo(rule.getAsBigDecimal()) > 0, path, value + " must be above " + rule);
      case "exclusiveMaximum" -> bound(value.compareTo(rule.getAsBigDecimal()) < 0, path, value + " must be below " + rule);
      case "multipleOf" ->
          bound(value.remainder(rule.getAsBigDecimal()).signum() == 0, path, value + " is not a multiple of " + rule);
      default -> {}
    }
  }

  private void bound(boolean holds, String path, String why) {
    if (!holds) {
      add(path, why);
    }
  }

  private JsonElement resolve(String reference) {
    JsonElement at = root;
    for (String piece : reference.substring(1).split("/")) {
      String name = piece.replace("~1", "/").replace("~0", "~");
      if (!name.isEmpty()) {
        at = at != null && at.isJsonObject() ? at.getAsJsonObject().get(name) : null;
      }
    }
    return at;
  }

  private static boolean isOf(String type, JsonElement value) {
    return switch (type) {
      case "null" -> value.isJsonNull();
      case "object" -> value.isJsonObject();
      case "array" -> value.isJsonArray();
      case "boolean" -> value.isJsonPrimitive() && value.getAsJsonPrimitive().isBoolean();
      case "string" -> isText(value);
      case "number" -> value.isJsonPrimitive() && value.getAsJsonPrimitive().isNumber();
      default -> isOf("number", value) && value.getAsBigDecimal().stripTrailingZeros().scale() <= 0;
    };
  }

  private static boolean isText(JsonElement value) {
    return value.isJsonPrimitive() && value.getAsJsonPrimitive().isString();
  }

  private static List<JsonElement> listed(JsonElement value) {
    return value.isJsonArray() ? value.getAsJsonArray().asList() : List.of(value);
  }

  private static String below(String path, String name) {
    return path.isEmpty() ? name : path + "." + name;
  }

  private static String shown(JsonElement value) {
    String text = value.toString();
    return text.length() <= 60 ? text : text.substring(0, 57) + "...";
  }
}
