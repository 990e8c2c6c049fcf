package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
)

// serve serves the role subject until standard input ends, or SIGTERM.
func serve() error {
	server, err := agent.New("subject", handle, shared()...)
	if err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer release()
	if err := server.Start(ctx); err != nil {
		return err
	}
	say(map[string]any{"ready": map[string]any{"address": server.Address(), "instance_id": server.InstanceID()}})
	input := lines()
	for open := true; open; {
		select {
		case _, open = <-input:
		case <-ctx.Done():
			open = false
		}
	}
	server.Stop(server.Settings().Drain)
	return nil
}

// fields are the values of a step that is an object.
type fields struct {
	Text, Role, Capability, Message, Reason, Checkpoint, Model, Tool string
	Write                                                            string
	Seconds                                                          float64
	MemoKey                                                          string   `json:"memo_key"`
	SchemaJSON                                                       string   `json:"schema_json"`
	InputID                                                          string   `json:"input_id"`
	ArgumentsJSON                                                    string   `json:"arguments_json"`
	ResultJSON                                                       string   `json:"result_json"`
	InputTokens                                                      int64    `json:"input_tokens"`
	OutputTokens                                                     int64    `json:"output_tokens"`
	Tokens                                                           int64    `json:"tokens"`
	Timeout                                                          float64  `json:"timeout"`
	RetryDelay                                                       *float64 `json:"retry_delay"`
}

func handle(ctx context.Context, task *agent.Task) (agent.Answer, error) {
	var steps []map[string]json.RawMessage
	if json.Unmarshal([]byte(task.Text()), &steps) != nil || steps == nil {
		return agent.Text(task.Text()), nil
	}
	values := []any{}
	for _, step := range steps {
		for kind, raw := range step {
			if answer, done, err := last(kind, raw); done {
				return answer, err
			}
			value, has, err := do(ctx, task, kind, raw)
			if ctx.Err() != nil {
				return agent.Answer{}, ctx.Err()
			}
			if err != nil {
				value, has = map[string]any{"error": shown(err)}, true
			}
			if has {
				values = append(values, value)
			}
		}
	}
	answer, err := agent.JSON(values)
	if err != nil {
		return answer, err
	}
	return agent.Text(answer.Parts[0].DataJSON), nil
}

// last executes a step that ends the task.
func last(kind string, raw json.RawMessage) (answer agent.Answer, done bool, err error) {
	var text string
	var object fields
	_ = json.Unmarshal(raw, &text)
	_ = json.Unmarshal(raw, &object)
	switch kind {
	case "question":
		return agent.Ask(agent.Question{
			Text: object.Text, Checkpoint: []byte(object.Checkpoint), InputID: object.InputID,
		}), true, nil
	case "answer":
		return agent.Text(text), true, nil
	case "json":
		answer, err = agent.JSON(raw)
		return answer, true, err
	case "fail":
		options := []archon.ErrorOption{}
		if object.RetryDelay != nil {
			options = append(options, archon.WithRetryDelay(time.Duration(*object.RetryDelay*float64(time.Second))))
		}
		return answer, true, archon.NewError(archon.Reason(object.Reason), object.Message, options...)
	case "reject":
		return answer, true, agent.Rejected(text)
	case "panic":
		panic(text)
	}
	return answer, false, nil
}

// do executes a step, and returns its value, if it has one.
func do(ctx context.Context, task *agent.Task, kind string, raw json.RawMessage) (value any, has bool, err error) {
	var text string
	var number float64
	var object fields
	_ = json.Unmarshal(raw, &text)
	_ = json.Unmarshal(raw, &number)
	_ = json.Unmarshal(raw, &object)
	wait := time.Duration(number * float64(time.Second))
	switch kind {
	case "sleep":
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	case "block":
		time.Sleep(wait)
	case "ignore_cancel":
		time.Sleep(time.Duration(object.Seconds * float64(time.Second)))
		task.Write(object.Write)
	case "write":
		task.Write(text)
	case "publish":
		err = task.Publish(agent.Item{Text: text})
	case "save":
		err = task.Save([]byte(text))
	case "model_call":
		err = task.RecordModelCall(agent.ModelCall{
			Model: object.Model, Usage: archon.Usage{InputTokens: object.InputTokens, OutputTokens: object.OutputTokens},
		})
	case "tool_call":
		err = task.RecordToolCall(agent.ToolCall{
			Tool: object.Tool, Arguments: json.RawMessage(object.ArgumentsJSON), Result: json.RawMessage(object.ResultJSON),
		})
	case "delegate":
		delegation := agent.Delegation{
			Role: object.Role, Capability: object.Capability, Text: object.Text, MemoKey: object.MemoKey,
			Timeout: time.Duration(object.Timeout * float64(time.Second)),
		}
		done, failed := task.Delegate(ctx, delegation)
		return done.Text, true, failed
	case "ask":
		given, failed := task.Ask(ctx, agent.Question{
			Text: object.Text, SchemaJSON: object.SchemaJSON, InputID: object.InputID,
		})
		return given.Text, true, failed
	case "ask_secret":
		secret, failed := task.AskSecret(ctx, text)
		return secret, true, failed
	case "reserve":
		return true, true, task.Reserve(ctx, agent.Reservation{Tokens: object.Tokens})
	case "send":
		seq, failed := task.Send(ctx, agent.Outgoing{To: object.Role, Content: object.Text})
		return seq, true, failed
	case "receive":
		texts := []string{}
		for len(texts) < int(number) {
			message, failed := task.Receive(ctx)
			if failed != nil {
				return nil, false, failed
			}
			texts = append(texts, message.Text())
		}
		return texts, true, nil
	case "await_update":
		for range int(number) {
			select {
			case <-task.ContextChanged():
			case <-ctx.Done():
			}
		}
	case "echo":
		return echo(task, text), true, nil
	default:
		err = errors.New("unknown step " + kind)
	}
	return nil, false, err
}

// echo returns what the task has under a name.
func echo(task *agent.Task, name string) any {
	switch name {
	case "parts":
		parts := []string{}
		for _, part := range task.Parts() {
			parts = append(parts, part.Text+part.DataJSON+part.URL)
		}
		return parts
	case "context":
		items := [][]string{}
		for _, item := range task.Context() {
			items = append(items, []string{item.Role, item.Text})
		}
		return items
	case "remaining":
		if left, ok := task.Remaining(); ok {
			return left.Seconds()
		}
		return nil
	case "metadata":
		return task.Metadata()
	case "trace":
		traceparent, _ := task.Traceparent()
		return traceparent
	case "history":
		history := [][]string{}
		for _, message := range task.History() {
			history = append(history, []string{message.Role, message.Text})
		}
		return history
	case "checkpoint":
		return string(task.Checkpoint())
	case "answers":
		answers := map[string]string{}
		for id, answer := range task.Answers() {
			answers[id] = answer.Text
		}
		return answers
	case "targets":
		roles := []string{}
		for _, target := range task.DelegationTargets() {
			roles = append(roles, target.Role)
		}
		return roles
	case "chain":
		return append([]string{}, task.DelegationChain()...)
	case "budget":
		return limits(task.Budget())
	}
	simple := map[string]any{
		"attempt": task.Attempt(), "task_id": task.ID(), "run_id": task.RunID(), "session_id": task.SessionID(),
		"expected_output": task.ExpectedOutput(),
	}
	if value, ok := simple[name]; ok {
		return value
	}
	return fmt.Sprintf("unknown echo %s", name)
}

func limits(budget *archon.Budget) map[string]any {
	set := map[string]any{}
	if budget == nil {
		return set
	}
	for name, value := range map[string]float64{
		"max_tokens": float64(budget.MaxTokens), "max_cost_micro_usd": float64(budget.MaxCostMicroUSD),
		"max_time": budget.MaxTime.Seconds(), "max_depth": float64(budget.MaxDepth),
		"max_model_calls": float64(budget.MaxModelCalls),
	} {
		if value != 0 {
			set[name] = value
		}
	}
	return set
}
