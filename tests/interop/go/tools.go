// A tool that the Go member shares: `count_words` counts the words of a text, after a pause if one is given.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log"
	"strconv"
	"strings"
	"sync"
	"time"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	wordsTool     = "count_words"
	wordsSchema   = `{"type": "object", "properties": {"text": {"type": "string"}, "pause": {"type": "string"}}, "required": ["text"]}`
	mostLeases    = 100
	mostAnswers   = 1000
	defaultLease  = 10 * time.Minute
	longestLease  = time.Hour
	defaultCall   = 30 * time.Second
	callsPerLease = 60 // a minute
)

type lease struct {
	task    *commonv1.TaskRef
	expires time.Time
	revoked context.Context
	revoke  context.CancelFunc
	calls   []time.Time // of the last minute
}

type answer struct {
	arguments string
	result    *toolv1.ToolResult
}

// owner shares the tool. Its answers are kept by task and key, so that a repeated call is not executed again.
type owner struct {
	toolv1.UnimplementedToolServiceServer
	mu        sync.Mutex
	leases    map[string]*lease
	answers   map[string]answer
	calls     int64
	succeeded int64
	taken     time.Duration
}

func newOwner() *owner { return &owner{leases: map[string]*lease{}, answers: map[string]answer{}} }

// tool returns the tool with its terms and figures, as it is registered and listed.
func (o *owner) tool() *commonv1.Tool {
	o.mu.Lock()
	defer o.mu.Unlock()
	share := &commonv1.ToolShare{MaxCallsPerMinute: callsPerLease, Calls: o.calls}
	if o.calls > 0 {
		share.SuccessRate = float64(o.succeeded) / float64(o.calls)
		share.MeanLatency = durationpb.New(o.taken / time.Duration(o.calls))
	}
	return &commonv1.Tool{Name: wordsTool, Description: "Counts the words of a text.", InputSchemaJson: wordsSchema, Share: share}
}

func (o *owner) ListTools(context.Context, *toolv1.ListToolsRequest) (*toolv1.ListToolsResponse, error) {
	return &toolv1.ListToolsResponse{Tools: []*commonv1.Tool{o.tool()}}, nil
}

func (o *owner) LeaseTool(_ context.Context, request *toolv1.LeaseToolRequest) (*toolv1.LeaseToolResponse, error) {
	if request.GetToolName() != wordsTool {
		return nil, ending(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_NOT_FOUND)
	}
	duration := defaultLease
	if request.GetDuration() != nil {
		duration = min(longestLease, request.GetDuration().AsDuration())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, one := range o.leases {
		if time.Now().After(one.expires) {
			delete(o.leases, id)
		}
	}
	if len(o.leases) >= mostLeases {
		return nil, ending(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RESOURCE_EXHAUSTED)
	}
	id := rand.Text()
	revoked, revoke := context.WithCancel(context.Background())
	one := &lease{task: proto.CloneOf(request.GetTask()), expires: time.Now().Add(duration), revoked: revoked, revoke: revoke}
	o.leases[id] = one
	log.Printf("leased %s for %s", request.GetInstanceId(), request.GetTask().GetTaskId())
	return &toolv1.LeaseToolResponse{Lease: &toolv1.ToolLease{
		LeaseId: id, ToolName: wordsTool, ExpireTime: timestamppb.New(one.expires), MaxCallsPerMinute: callsPerLease,
	}}, nil
}

// begin returns the lease of a call that may start now.
func (o *owner) begin(id string) (*lease, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one, now := o.leases[id], time.Now()
	if one == nil || now.After(one.expires) {
		delete(o.leases, id)
		return nil, ending(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_LEASE_EXPIRED)
	}
	for len(one.calls) > 0 && now.Sub(one.calls[0]) > time.Minute {
		one.calls = one.calls[1:]
	}
	if len(one.calls) >= callsPerLease {
		return nil, ending(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RESOURCE_EXHAUSTED)
	}
	one.calls = append(one.calls, now)
	return one, nil
}

func (o *owner) ExecuteTool(request *toolv1.ExecuteToolRequest, stream grpc.ServerStreamingServer[toolv1.ExecuteToolResponse]) error {
	one, err := o.begin(request.GetLeaseId())
	if err != nil {
		return err
	}
	var arguments struct {
		Text  *string `json:"text"`
		Pause string  `json:"pause"`
	}
	if err := json.Unmarshal([]byte(request.GetArgumentsJson()), &arguments); err != nil || arguments.Text == nil {
		return ending(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT)
	}
	key := ""
	if request.GetIdempotencyKey() != "" {
		scope := one.task.GetRunId() + "\n" + one.task.GetTaskId()
		if one.task.GetTaskId() == "" {
			scope = request.GetLeaseId()
		}
		key = scope + "\n" + request.GetIdempotencyKey()
		o.mu.Lock()
		earlier, found := o.answers[key]
		o.mu.Unlock()
		if found && earlier.arguments != request.GetArgumentsJson() {
			return ending(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED)
		}
		if found {
			return sendResult(stream, earlier.result)
		}
	}
	timeout := defaultCall
	if request.GetTimeout() != nil {
		timeout = request.GetTimeout().AsDuration()
	}
	ctx, cancel := context.WithTimeout(stream.Context(), timeout)
	defer cancel()
	defer context.AfterFunc(one.revoked, cancel)()
	log.Printf("executing for %s", one.task.GetTaskId())
	began := time.Now()
	progress := &toolv1.ExecuteToolResponse_Progress{Progress: "counting"}
	if err := stream.Send(&toolv1.ExecuteToolResponse{Event: progress}); err != nil {
		return err
	}
	result := &toolv1.ToolResult{Status: toolv1.ToolStatus_TOOL_STATUS_SUCCESS}
	switch {
	case waited(ctx, arguments.Pause):
		result.ContentJson = strconv.Itoa(len(strings.Fields(*arguments.Text)))
	case one.revoked.Err() != nil:
		log.Printf("revoked for %s", one.task.GetTaskId())
		return ending(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_LEASE_EXPIRED, "begun", "true")
	case stream.Context().Err() != nil:
		log.Printf("cancelled for %s", one.task.GetTaskId())
		return stream.Context().Err()
	default:
		result.Status, result.ErrorMessage = toolv1.ToolStatus_TOOL_STATUS_TIMEOUT, "no answer in time"
	}
	result.ExecutionTime = durationpb.New(time.Since(began))
	o.mu.Lock()
	o.calls, o.taken = o.calls+1, o.taken+time.Since(began)
	if result.GetStatus() == toolv1.ToolStatus_TOOL_STATUS_SUCCESS {
		o.succeeded++
	}
	if key != "" && len(o.answers) < mostAnswers {
		o.answers[key] = answer{request.GetArgumentsJson(), result}
	}
	o.mu.Unlock()
	return sendResult(stream, result)
}

func (o *owner) RevokeLease(_ context.Context, request *toolv1.RevokeLeaseRequest) (*toolv1.RevokeLeaseResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.leases[request.GetLeaseId()]; one != nil {
		one.revoke()
		delete(o.leases, request.GetLeaseId())
		log.Printf("returned by %s", one.task.GetTaskId())
	}
	return &toolv1.RevokeLeaseResponse{}, nil
}

func sendResult(stream grpc.ServerStreamingServer[toolv1.ExecuteToolResponse], result *toolv1.ToolResult) error {
	return stream.Send(&toolv1.ExecuteToolResponse{Event: &toolv1.ExecuteToolResponse_Result{Result: result}})
}
