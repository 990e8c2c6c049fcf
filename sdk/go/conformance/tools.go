package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	"github.com/archon-mesh/archon/sdk/go/registry"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

const toolSchema = `{"type": "object", "required": ["text"], "additionalProperties": false, "properties": {
	"text": {"type": "string"}, "report": {"type": "string"}, "sleep": {"type": "number", "minimum": 0},
	"fail": {"type": "string"}, "panic": {"type": "string"}}}`

// begun counts the calls of the tools that have begun, by their text.
var begun = struct {
	sync.Mutex
	calls map[string]int
}{calls: map[string]int{}}

// shared returns the option by which the subject shares its tools, if it is to share some.
func shared() []agent.Option {
	if os.Getenv("SUBJECT_TOOLS") == "" {
		return nil
	}
	work := tools.SharedTool{
		Tool:    tools.Tool{Name: "work", Description: "Does some work.", InputSchemaJSON: toolSchema},
		Execute: use, MaxCallsPerMinute: 600,
	}
	look, rare := work, work
	look.Tool.Name, look.Tool.Idempotent = "look", true
	rare.Tool.Name, rare.MaxCallsPerMinute, rare.MaxConcurrent = "rare", 2, 1
	return []agent.Option{agent.WithSharedTools(work, look, rare)}
}

func use(ctx context.Context, call *tools.Call) (any, error) {
	var given struct {
		Text, Report, Fail, Panic string
		Sleep                     float64
	}
	if err := call.Decode(&given); err != nil {
		return nil, err
	}
	begun.Lock()
	begun.calls[given.Text]++
	number := begun.calls[given.Text]
	begun.Unlock()
	if given.Report != "" {
		call.Report(given.Report)
	}
	select {
	case <-time.After(seconds(given.Sleep)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case given.Fail != "":
		return nil, archon.NewError(archon.ReasonUnavailable, given.Fail)
	case given.Panic != "":
		return nil, errors.New(given.Panic)
	}
	traceparent, _ := archon.TraceOf(ctx)
	return map[string]any{"text": given.Text, "calls": number, "task": call.Task.GetTaskId(), "trace": traceparent}, nil
}

// useTool leases a tool of another agent, and calls it once.
func useTool(ctx context.Context, asked line) (any, error) {
	ctx = archon.WithCall(ctx, archon.Call{RunID: asked.Task.RunID, TaskID: asked.Task.TaskID, Attempt: asked.Task.Attempt})
	found, err := registry.Connect(os.Getenv("ARCHON_REGISTRY"))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	client := tools.NewClient(found, "tester")
	defer client.Close()
	tool := client.Lease(ctx, asked.Tool, asked.Role)
	defer tool.Release()
	progress := []string{}
	result, err := tool.Execute(ctx, asked.Arguments, tools.CallOptions{
		Timeout: seconds(asked.Timeout), IdempotencyKey: asked.IdempotencyKey,
		Progress: func(text string) { progress = append(progress, text) },
	})
	if err != nil {
		return nil, err
	}
	content := json.RawMessage("null")
	if result.ContentJSON != "" {
		content = json.RawMessage(result.ContentJSON)
	}
	return map[string]any{
		"status": result.Status, "content": content, "error": result.ErrorMessage, "progress": progress,
	}, nil
}
