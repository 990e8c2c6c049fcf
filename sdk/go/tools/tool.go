// Package tools has the tools that agents share: SharedTool is a tool that an agent lends to others (agent.WithSharedTools),
// Client finds, leases and executes the tools of others where they live.
package tools

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
)

// Bounds of shared tools.
const (
	MaxArgumentsBytes = 1 << 20          // of a call's arguments as JSON
	MaxResultBytes    = 2 << 20          // of a result's content as JSON; a larger one is an error result
	MaxTimeout        = time.Hour        // of a call, whatever its caller asks for
	CallTimeout       = 30 * time.Second // of a call whose caller asks for no other time
	LeaseTime         = 10 * time.Minute // of a lease by default
	MaxLeaseTime      = time.Hour

	maxRate     = 10_000
	maxName     = 128
	maxError    = 4 << 10 // characters of the error message of a result
	maxMetadata = 16      // entries of a result's metadata
	maxText     = 256     // characters of a key and of a value of it
)

// Tool is a tool of a role, with the fields of an MCP tool; ReadOnly to OpenWorld are hints. InputSchemaJSON is the JSON
// Schema of its arguments, an object.
type Tool struct {
	Name             string
	Title            string
	Description      string
	InputSchemaJSON  string
	OutputSchemaJSON string
	ReadOnly         bool
	Destructive      bool
	Idempotent       bool
	OpenWorld        bool
}

// Proto returns the tool as a message.
func (t Tool) Proto() *commonv1.Tool {
	return &commonv1.Tool{
		Name: clean(t.Name), Title: clean(t.Title), Description: clean(t.Description),
		InputSchemaJson: clean(t.InputSchemaJSON), OutputSchemaJson: clean(t.OutputSchemaJSON),
		Hints: &commonv1.ToolHints{
			ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent, OpenWorld: t.OpenWorld,
		},
	}
}

// ToolOf returns the tool that a message has.
func ToolOf(message *commonv1.Tool) Tool {
	hints := message.GetHints()
	return Tool{
		message.GetName(), message.GetTitle(), message.GetDescription(), message.GetInputSchemaJson(),
		message.GetOutputSchemaJson(), hints.GetReadOnly(), hints.GetDestructive(), hints.GetIdempotent(),
		hints.GetOpenWorld(),
	}
}

// Call is a call of a shared tool, as its owner sees it. Task is the attempt that the tool was leased for, and InstanceID the
// instance that leased it: both in the words of the caller, nil and empty if it named none.
type Call struct {
	ToolName   string
	Arguments  json.RawMessage
	Task       *commonv1.TaskRef
	InstanceID string
	// Report sends progress to the caller, a text for people. It never waits.
	Report func(text string)
}

// Decode reads the arguments into a value.
func (c *Call) Decode(into any) error {
	if err := json.Unmarshal(c.Arguments, into); err != nil {
		return archon.NewError(archon.ReasonInvalidArgument, "the arguments do not fit: "+err.Error())
	}
	return nil
}

// SharedTool is a tool that other agents may lease and execute here.
//
// Execute returns a JSON value; its context is cancelled if no caller waits any more, or the time of the call is over. An
// error becomes an error result: the text of an *archon.Error, an incident number for any other error, and for a panic.
// Callers may make MaxCallsPerMinute calls with one lease (0: 60; below 0: any number) and TotalPerMinute with all leases
// together (0: 600; below 0: any number), MaxConcurrent of them at a time (0: 16); a call takes at most Timeout (0: 1 h).
type SharedTool struct {
	Tool              Tool
	Execute           func(ctx context.Context, call *Call) (any, error)
	MaxCallsPerMinute int
	TotalPerMinute    int
	MaxConcurrent     int
	Timeout           time.Duration
}

// Completed returns the tool with its defaults, or INVALID_ARGUMENT if it has no name, no function, no valid schema, or a
// limit that is out of range.
func (s SharedTool) Completed() (SharedTool, error) {
	name := s.Tool.Name
	if n := utf8.RuneCountInString(name); n < 1 || n > maxName {
		return s, archon.NewError(archon.ReasonInvalidArgument,
			"the name of a shared tool must have 1 to "+strconv.Itoa(maxName)+" characters")
	}
	s.MaxCallsPerMinute = rate(s.MaxCallsPerMinute, 60)
	s.TotalPerMinute = rate(s.TotalPerMinute, 600)
	if s.MaxConcurrent == 0 {
		s.MaxConcurrent = 16
	}
	if s.Timeout == 0 {
		s.Timeout = MaxTimeout
	}
	switch {
	case s.Execute == nil:
		return s, archon.NewError(archon.ReasonInvalidArgument, "shared tool "+name+" has no function")
	case s.MaxCallsPerMinute > maxRate || s.TotalPerMinute > maxRate:
		return s, archon.NewError(archon.ReasonInvalidArgument,
			"shared tool "+name+": at most "+strconv.Itoa(maxRate)+" calls per minute")
	case s.MaxConcurrent < 1:
		return s, archon.NewError(archon.ReasonInvalidArgument, "shared tool "+name+": MaxConcurrent must be at least 1")
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return s, archon.NewError(archon.ReasonInvalidArgument, "shared tool "+name+": Timeout must be above 0 and at most 1 h")
	}
	if s.Tool.InputSchemaJSON != "" {
		var schema map[string]any
		if json.Unmarshal([]byte(s.Tool.InputSchemaJSON), &schema) != nil || schema == nil {
			return s, archon.NewError(archon.ReasonInvalidArgument, "the schema of tool "+name+" is not a JSON object")
		}
	}
	return s, nil
}

// rate returns a limit of calls: its default for 0, and 0 (any number) below 0.
func rate(given, fallback int) int {
	if given == 0 {
		return fallback
	}
	return max(0, given)
}

// Status says how a call of a shared tool ended.
type Status string

// The outcomes.
const (
	Success  Status = "success"
	Failed   Status = "error"
	TimedOut Status = "timeout"
)

// Result is the result of a call: a JSON value, or an error message in one sentence. Took is the time that the tool itself
// took. Metadata of a failed call may have code, reason and kind of the failure.
type Result struct {
	ContentJSON  string
	Status       Status
	ErrorMessage string
	Took         time.Duration
	Metadata     map[string]string
}

// OK reports whether the call succeeded.
func (r Result) OK() bool { return r.Status == Success }

// Decode reads the content into a value.
func (r Result) Decode(into any) error {
	if err := json.Unmarshal([]byte(r.ContentJSON), into); err != nil {
		return archon.NewError(archon.ReasonInvalidArgument, "the result does not fit: "+err.Error())
	}
	return nil
}

var statuses = map[Status]toolv1.ToolStatus{
	Success: toolv1.ToolStatus_TOOL_STATUS_SUCCESS, Failed: toolv1.ToolStatus_TOOL_STATUS_ERROR,
	TimedOut: toolv1.ToolStatus_TOOL_STATUS_TIMEOUT,
}

// Proto returns the result as a message.
func (r Result) Proto() *toolv1.ToolResult {
	message := &toolv1.ToolResult{
		Status: statuses[r.Status], ErrorMessage: cut(clean(r.ErrorMessage), maxError),
		ExecutionTime: durationpb.New(max(0, r.Took).Truncate(time.Microsecond)),
	}
	if r.OK() {
		message.ContentJson = clean(r.ContentJSON)
	}
	message.Metadata = limited(r.Metadata)
	return message
}

// resultOf returns the result that a message has, which may come from anybody.
func resultOf(message *toolv1.ToolResult) (Result, error) {
	result := Result{
		Took: message.GetExecutionTime().AsDuration(), Metadata: limited(message.GetMetadata()),
		ErrorMessage: cut(message.GetErrorMessage(), maxError), ContentJSON: message.GetContentJson(),
	}
	for status, number := range statuses {
		if number == message.GetStatus() {
			result.Status = status
		}
	}
	switch {
	case result.Status == "":
		return result, archon.NewError(archon.ReasonUnknown, "the owner of the tool answered without a status",
			archon.WithKind(archon.KindToolCrash))
	case result.OK() && result.ContentJSON != "" && !json.Valid([]byte(result.ContentJSON)):
		return result, archon.NewError(archon.ReasonUnknown,
			"the owner of the tool answered with a content that is not JSON", archon.WithKind(archon.KindToolCrash))
	case !result.OK() && result.ErrorMessage == "":
		result.ErrorMessage = "the tool ended with the status " + string(result.Status)
	}
	return result, nil
}

func limited(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	kept := make(map[string]string, min(len(values), maxMetadata))
	for key, value := range values {
		if len(kept) == maxMetadata {
			break
		}
		kept[cut(clean(key), maxText)] = cut(clean(value), maxText)
	}
	return kept
}

func clean(text string) string { return strings.ToValidUTF8(text, "?") }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most])
}
