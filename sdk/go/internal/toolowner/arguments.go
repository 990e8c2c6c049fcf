package toolowner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

// limitOf returns the time limit of a call: the least that the caller, its deadline and the tool allow.
func limitOf(ctx context.Context, request *toolv1.ExecuteToolRequest, tool time.Duration) (time.Duration, error) {
	limit := tools.CallTimeout
	if request.Timeout != nil {
		limit = request.GetTimeout().AsDuration()
		if limit <= 0 {
			return 0, invalid("timeout", "must be above 0 s")
		}
	}
	limit = min(limit, tool, tools.MaxTimeout)
	if left, ok := archon.Remaining(ctx); ok {
		limit = min(limit, max(0, left-answerMargin))
	}
	return limit, nil
}

// keyOf returns the key of a call: keys belong to a task, whichever of its attempts and leases they come with; without a task,
// to the lease.
func keyOf(l *lease, key string) (keptKey, bool) {
	if key == "" {
		return keptKey{}, false
	}
	if l.task != nil {
		return keptKey{l.toolName, l.task.GetRunId(), l.task.GetTaskId(), key}, true
	}
	return keptKey{tool: l.toolName, task: l.id, key: key}, true
}

// readArguments returns the arguments of a call, and a digest of their values.
func readArguments(name string, schema map[string]any, text string) ([]byte, [32]byte, error) {
	var digest [32]byte
	if len(text) > tools.MaxArgumentsBytes {
		return nil, digest, invalidArguments(name, "arguments_json", "must have at most "+strconv.Itoa(tools.MaxArgumentsBytes)+" bytes")
	}
	if text == "" {
		text = "{}"
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return nil, digest, invalidArguments(name, "arguments_json", "must be a JSON object")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, digest, invalidArguments(name, "arguments_json", "must be a JSON object")
	}
	if faults := validate(schema, object, ""); len(faults) > 0 {
		options := []archon.ErrorOption{archon.WithKind(archon.KindToolInvalidParameters)}
		for _, fault := range faults[:min(5, len(faults))] {
			options = append(options, archon.WithViolation(fault.Field, fault.Description))
		}
		return nil, digest, archon.NewError(archon.ReasonInvalidArgument,
			"invalid arguments of tool "+name+": "+faults[0].Field+" "+faults[0].Description, options...)
	}
	canonical, err := json.Marshal(object) // keys sorted
	if err != nil {
		return nil, digest, archon.ToError(err, "")
	}
	return []byte(text), sha256.Sum256(canonical), nil
}

func invalidArguments(name, field, why string) error {
	return archon.NewError(archon.ReasonInvalidArgument, "invalid arguments of tool "+name+": "+field+" "+why,
		archon.WithViolation(field, why), archon.WithKind(archon.KindToolInvalidParameters))
}

func invalid(field, why string) error {
	return archon.NewError(archon.ReasonInvalidArgument, field+" "+why, archon.WithViolation(field, why))
}
