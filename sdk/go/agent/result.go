package agent

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// snapshot is what a result has of its task, as it was when the handler ended.
type snapshot struct {
	task         *Task
	usage        archon.Usage
	context      []*commonv1.ContextItem
	messagesRead int64
}

func (t *Task) snapshot() snapshot { return snapshot{t, t.usage, t.context, t.inbox.readSeq} }

// result returns the result of an answer, or of a question to a person.
func (s snapshot) result(answer Answer) (*agentv1.TaskResult, error) {
	if answer.Question != nil {
		return s.inputRequired(*answer.Question)
	}
	result := &agentv1.TaskResult{
		State: commonv1.TaskState_TASK_STATE_COMPLETED, Usage: s.usage.Proto(), NoPublish: answer.NoPublish,
		Output: archon.PartMessages(answer.Parts), Metadata: cleanMap(answer.Metadata), MessagesRead: s.messagesRead,
	}
	if answer.Usage != nil {
		result.Usage = answer.Usage.Proto()
	}
	for _, item := range s.context {
		result.Used = append(result.Used, item.GetRef())
	}
	if answer.Text != "" {
		result.Output = append(result.Output, archon.TextPart(answer.Text).Proto())
	}
	for _, item := range answer.Items {
		result.Items = append(result.Items, &commonv1.ContextItem{
			Parts: item.parts(), Policy: item.Policy.Proto(), Metadata: cleanMap(item.Metadata),
		})
	}
	if s.task.remember {
		history, err := s.turn(answer, result)
		if err != nil {
			return nil, err
		}
		result.NewHistory, result.ConversationVersion = history, s.task.ConversationVersion()
	}
	return result, nil
}

// turn returns the messages that an answer adds to the session history.
func (s snapshot) turn(answer Answer, result *agentv1.TaskResult) ([]*agentv1.HistoryMessage, error) {
	turn := answer.NewHistory
	if turn == nil {
		turn = []HistoryMessage{
			{Role: "user", Text: shortened(s.task.Text())},
			{Role: "assistant", Text: shortened(archon.TextOf(result.GetOutput()))},
		}
	}
	messages, size := make([]*agentv1.HistoryMessage, len(turn)), 0
	for i, message := range turn {
		messages[i] = message.proto()
		size += proto.Size(messages[i])
	}
	if size > maxTurn {
		return nil, archon.NewError(archon.ReasonFrameTooLarge, fmt.Sprintf(
			"a turn of %d bytes is too large for the session history; the limit is %d", size, maxTurn))
	}
	return messages, nil
}

func (s snapshot) inputRequired(question Question) (*agentv1.TaskResult, error) {
	if err := checkCheckpoint(question.Checkpoint); err != nil {
		return nil, err
	}
	id := question.InputID
	if id == "" {
		id = fmt.Sprintf("q%d", s.task.Attempt())
	}
	return &agentv1.TaskResult{
		State: commonv1.TaskState_TASK_STATE_INPUT_REQUIRED, Usage: s.usage.Proto(), Checkpoint: question.Checkpoint,
		InputRequest: question.proto(id),
	}, nil
}
