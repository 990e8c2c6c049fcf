package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/memory"
	"github.com/archon-mesh/archon/sdk/go/registry"
	"github.com/archon-mesh/archon/sdk/go/runview"
)

// line is a call.
type line struct {
	ID, Stop                         any
	Call, Goal, Strategy, Text, Role string
	Goals, Roles                     []string
	RunID                            string `json:"run_id"`
	RequestID                        string `json:"request_id"`
	InputID                          string `json:"input_id"`
	AfterSeq                         int64  `json:"after_seq"`
	Timeout                          float64
	Deadline                         float64
	Trace                            string
	Tool                             string
	Arguments                        json.RawMessage
	IdempotencyKey                   string `json:"idempotency_key"`
	Task                             struct {
		RunID   string `json:"run_id"`
		TaskID  string `json:"task_id"`
		Attempt int
	}
}

// call makes the calls that the lines of standard input ask for, side by side.
func call() error {
	client, err := archon.NewClient(os.Getenv("ARCHON_TARGET"))
	if err != nil {
		return err
	}
	defer client.Close()
	say(map[string]any{"ready": map[string]any{}})
	var running sync.Map
	var calls sync.WaitGroup
	defer calls.Wait()
	for text := range lines() {
		var asked line
		if err := json.Unmarshal(text, &asked); err != nil {
			return err
		}
		if asked.Stop != nil {
			if cancel, ok := running.Load(asked.Stop); ok {
				cancel.(context.CancelFunc)()
			}
			continue
		}
		ctx, cancel := context.WithCancel(archon.WithTrace(context.Background(), asked.Trace, ""))
		running.Store(asked.ID, cancel)
		calls.Add(1)
		go func() {
			defer calls.Done()
			defer cancel()
			if asked.Deadline > 0 {
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, seconds(asked.Deadline))
				defer end()
			}
			result, err := answer(ctx, client, asked)
			if err != nil {
				say(map[string]any{"id": asked.ID, "error": shown(err)})
				return
			}
			say(map[string]any{"id": asked.ID, "result": result})
		}()
	}
	return nil
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }

// state returns what a run is now.
func state(run *archon.Run, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	output, err := run.Output()
	return map[string]any{"run_id": run.ID, "state": run.State, "output": output}, err
}

func id(handle *archon.RunHandle, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]any{"run_id": handle.ID()}, nil
}

func answer(ctx context.Context, client *archon.Client, asked line) (any, error) {
	submission := archon.Submission{
		Goal: asked.Goal, Roles: asked.Roles, Strategy: asked.Strategy, RequestID: asked.RequestID,
		Timeout: seconds(asked.Timeout),
	}
	switch asked.Call {
	case "submit":
		return id(client.Submit(ctx, submission))
	case "run":
		return client.Run(ctx, submission)
	case "wait":
		if asked.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, seconds(asked.Timeout))
			defer cancel()
		}
		return state(client.Wait(ctx, asked.RunID))
	case "get":
		return state(client.Get(ctx, asked.RunID))
	case "cancel":
		return state(client.Cancel(ctx, asked.RunID, ""))
	case "pause":
		return state(client.Pause(ctx, asked.RunID))
	case "resume":
		return state(client.Resume(ctx, asked.RunID))
	case "respond":
		run, err := client.Respond(ctx, asked.RunID, archon.Response{InputID: asked.InputID, Text: asked.Text})
		if err != nil {
			return nil, err
		}
		return map[string]any{"run_id": run.ID}, nil
	case "fork":
		return id(client.Fork(ctx, asked.RunID, archon.Fork{AfterSeq: asked.AfterSeq}))
	case "watch":
		last := asked.AfterSeq
		for event, err := range client.Watch(ctx, asked.RunID, archon.After(last)) {
			if err != nil {
				return nil, err
			}
			last = max(last, event.Seq)
			say(map[string]any{"id": asked.ID, "event": map[string]any{"seq": event.Seq, "kind": event.Kind}})
		}
		return map[string]any{"last_seq": last}, nil
	case "view":
		return view(ctx, client, asked.RunID)
	case "converse":
		return converse(ctx, client, asked.Goals)
	case "plan":
		plan, err := client.Plan(ctx, submission)
		roles := []string{}
		for _, step := range plan.GetSteps() {
			roles = append(roles, step.GetRole())
		}
		return map[string]any{"tasks": roles}, err
	case "instances":
		client, err := registry.Connect(os.Getenv("ARCHON_REGISTRY"))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		found, err := client.Resolve(ctx, registry.Query{Role: asked.Role})
		ids := []string{}
		for _, instance := range found {
			ids = append(ids, instance.GetInstanceId())
		}
		return ids, err
	case "pull":
		client, err := memory.Connect(os.Getenv("ARCHON_MEMORY"))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		found, err := client.Scope(asked.RunID).Pull(ctx, asked.Role, false)
		items := [][]string{}
		for _, item := range found {
			items = append(items, []string{item.GetSourceRole(), item.GetContent()})
		}
		return items, err
	case "use_tool":
		return useTool(ctx, asked)
	case "close":
		return map[string]any{}, client.Close()
	}
	return nil, errors.New("unknown call " + asked.Call)
}

func view(ctx context.Context, client *archon.Client, runID string) (any, error) {
	view := runview.New()
	for event, err := range client.Watch(ctx, runID) {
		if err != nil {
			return nil, err
		}
		view.Apply(event)
	}
	tasks := map[string]any{}
	for _, task := range view.Tasks {
		tasks[task.ID] = map[string]any{"role": task.Role, "state": task.State, "attempts": len(task.Attempts)}
	}
	return map[string]any{"state": view.State, "tasks": tasks, "output": view.Output()}, nil
}

func converse(ctx context.Context, client *archon.Client, goals []string) (any, error) {
	stream, err := client.Converse(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	runs := []string{}
	for _, goal := range goals {
		run, err := stream.Submit(ctx, archon.Submission{Goal: goal})
		if err != nil {
			return nil, err
		}
		runs = append(runs, run.ID)
	}
	if err := stream.Done(); err != nil {
		return nil, err
	}
	for _, err := range stream.Events() {
		if err != nil {
			return nil, err
		}
	}
	outputs := []string{}
	for _, runID := range runs {
		run, err := client.Get(ctx, runID)
		if err != nil {
			return nil, err
		}
		output, err := run.Output()
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, output)
	}
	return outputs, nil
}
