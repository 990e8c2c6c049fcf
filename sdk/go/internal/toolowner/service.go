package toolowner

import (
	"context"
	"encoding/base64"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

const (
	pageSize = 100
	maxPage  = 1_000
	maxID    = 128
)

// Service returns ToolService over an owner.
func (o *Owner) Service() toolv1.ToolServiceServer { return &service{owner: o} }

type service struct {
	toolv1.UnimplementedToolServiceServer
	owner *Owner
}

func (s *service) ListTools(_ context.Context, request *toolv1.ListToolsRequest) (*toolv1.ListToolsResponse, error) {
	size := int(request.GetPageSize())
	if size == 0 {
		size = pageSize
	}
	if size < 1 || size > maxPage {
		return nil, invalid("page_size", "must be 1 to 1000; 0 means 100")
	}
	after, err := base64.URLEncoding.DecodeString(request.GetPageToken())
	if err != nil {
		return nil, archon.NewError(archon.ReasonInvalidPageToken, "page_token does not belong to this list")
	}
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	found, more := s.owner.page(string(after), size)
	response := &toolv1.ListToolsResponse{Tools: found}
	if more {
		response.NextPageToken = base64.URLEncoding.EncodeToString([]byte(found[len(found)-1].GetName()))
	}
	return response, nil
}

func (s *service) LeaseTool(_ context.Context, request *toolv1.LeaseToolRequest) (*toolv1.LeaseToolResponse, error) {
	for field, value := range map[string]string{
		"tool_name": request.GetToolName(), "instance_id": request.GetInstanceId(),
		"task.task_id": request.GetTask().GetTaskId(), "task.run_id": request.GetTask().GetRunId(),
	} {
		if len([]rune(value)) > maxID {
			return nil, invalid(field, "must have at most "+strconv.Itoa(maxID)+" characters")
		}
	}
	duration := tools.LeaseTime
	if request.Duration != nil {
		duration = request.GetDuration().AsDuration()
	}
	var task *commonv1.TaskRef
	if request.GetTask().GetTaskId() != "" {
		task = request.GetTask()
	}
	granted, err := s.owner.grant(request.GetToolName(), duration, task, request.GetInstanceId())
	if err != nil {
		return nil, err
	}
	lease := &toolv1.ToolLease{
		LeaseId: granted.id, ToolName: granted.toolName, ExpireTime: timestamppb.New(granted.expires),
	}
	if granted.window != nil {
		lease.MaxCallsPerMinute = int32(granted.window.rate)
	}
	return &toolv1.LeaseToolResponse{Lease: lease}, nil
}

func (s *service) ExecuteTool(request *toolv1.ExecuteToolRequest, stream grpc.ServerStreamingServer[toolv1.ExecuteToolResponse]) error {
	ctx := archon.WithTrace(stream.Context(), request.GetTrace().GetTraceparent(), request.GetTrace().GetTracestate())
	result, err := s.owner.execute(ctx, request, func(text string) error {
		return stream.Send(&toolv1.ExecuteToolResponse{Event: &toolv1.ExecuteToolResponse_Progress{Progress: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&toolv1.ExecuteToolResponse{Event: &toolv1.ExecuteToolResponse_Result{Result: result}})
}

func (s *service) RevokeLease(_ context.Context, request *toolv1.RevokeLeaseRequest) (*toolv1.RevokeLeaseResponse, error) {
	s.owner.endLease(request.GetLeaseId(), "holder")
	return &toolv1.RevokeLeaseResponse{}, nil
}
