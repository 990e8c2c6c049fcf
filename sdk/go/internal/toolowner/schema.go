package toolowner

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"unicode/utf8"

	archon "github.com/archon-mesh/archon/sdk/go"
)

const maxDepth = 100 // of a value

// validate returns the faults of a value by the keywords of JSON Schema that say what arguments are: type, enum, const,
// required, properties, additionalProperties, items, and the bounds of numbers, texts and lists. Other keywords are left to the
// tool itself. Numbers of the value are json.Number.
func validate(schema map[string]any, value any, path string) []archon.FieldViolation {
	return check(schema, value, path, 0)
}

func check(schema map[string]any, value any, path string, depth int) []archon.FieldViolation {
	at := path
	if at == "" {
		at = "(all)"
	}
	fault := func(format string, arguments ...any) []archon.FieldViolation {
		return []archon.FieldViolation{{Field: at, Description: fmt.Sprintf(format, arguments...)}}
	}
	if depth > maxDepth {
		return fault("nested too deep")
	}
	if !hasType(schema["type"], value) {
		return fault("is not of type %v", schema["type"])
	}
	if allowed, ok := schema["enum"].([]any); ok && !among(allowed, value) {
		return fault("is not one of the allowed values")
	}
	if constant, ok := schema["const"]; ok && !equal(constant, value) {
		return fault("is not the allowed value")
	}
	switch value := value.(type) {
	case map[string]any:
		return checkObject(schema, value, path, depth, fault)
	case []any:
		return checkList(schema, value, path, depth, fault)
	case string:
		n := float64(utf8.RuneCountInString(value))
		if !within(n, schema["minLength"], schema["maxLength"]) {
			return fault("has %g characters", n)
		}
	case json.Number:
		n, _ := value.Float64()
		if !within(n, schema["minimum"], schema["maximum"]) {
			return fault("is out of range")
		}
		if least, ok := number(schema["exclusiveMinimum"]); ok && n <= least {
			return fault("is out of range")
		}
		if most, ok := number(schema["exclusiveMaximum"]); ok && n >= most {
			return fault("is out of range")
		}
	}
	return nil
}

type faultFunc func(format string, arguments ...any) []archon.FieldViolation

func checkObject(schema, object map[string]any, path string, depth int, fault faultFunc) []archon.FieldViolation {
	var faults []archon.FieldViolation
	if required, ok := schema["required"].([]any); ok {
		for _, name := range required {
			if _, given := object[fmt.Sprint(name)]; !given {
				faults = append(faults, fault("'%v' is a required property", name)...)
			}
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		inner := joined(path, name)
		if property, ok := properties[name].(map[string]any); ok {
			faults = append(faults, check(property, object[name], inner, depth+1)...)
			continue
		}
		switch additional := schema["additionalProperties"].(type) {
		case bool:
			if !additional && properties[name] == nil {
				faults = append(faults, fault("additional property '%s' is not allowed", name)...)
			}
		case map[string]any:
			faults = append(faults, check(additional, object[name], inner, depth+1)...)
		}
	}
	return faults
}

func checkList(schema map[string]any, list []any, path string, depth int, fault faultFunc) []archon.FieldViolation {
	if !within(float64(len(list)), schema["minItems"], schema["maxItems"]) {
		return fault("has %d items", len(list))
	}
	var faults []archon.FieldViolation
	if items, ok := schema["items"].(map[string]any); ok {
		for i, each := range list {
			faults = append(faults, check(items, each, joined(path, strconv.Itoa(i)), depth+1)...)
		}
	}
	return faults
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func hasType(wanted, value any) bool {
	switch wanted := wanted.(type) {
	case nil:
		return true
	case []any:
		for _, each := range wanted {
			if hasType(each, value) {
				return true
			}
		}
		return false
	case string:
		switch value := value.(type) {
		case nil:
			return wanted == "null"
		case bool:
			return wanted == "boolean"
		case string:
			return wanted == "string"
		case []any:
			return wanted == "array"
		case map[string]any:
			return wanted == "object"
		case json.Number:
			n, err := value.Float64()
			return wanted == "number" || (wanted == "integer" && err == nil && n == math.Trunc(n))
		}
	}
	return true
}

func among(allowed []any, value any) bool {
	for _, each := range allowed {
		if equal(each, value) {
			return true
		}
	}
	return false
}

func equal(given, value any) bool {
	if n, ok := number(given); ok {
		own, isNumber := value.(json.Number)
		if !isNumber {
			return false
		}
		m, err := own.Float64()
		return err == nil && n == m
	}
	a, errA := json.Marshal(given)
	b, errB := json.Marshal(value)
	return errA == nil && errB == nil && reflect.DeepEqual(a, b)
}

func number(value any) (float64, bool) {
	n, ok := value.(float64)
	return n, ok
}

func within(n float64, least, most any) bool {
	if bound, ok := number(least); ok && n < bound {
		return false
	}
	if bound, ok := number(most); ok && n > bound {
		return false
	}
	return true
}
