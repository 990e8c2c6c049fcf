package runview

import (
	"slices"
	"strings"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

// Message is a message of a task to others of the run; with Failure it was refused. Readers are the ids of the tasks whose
// results say that they have read it.
type Message struct {
	TaskID     string
	SenderID   string
	ReceiverID string
	Type       string
	Text       string
	Seq        int64
	Sent       time.Time
	Failure    *archon.Error
	Readers    []string
	Proto      *agentv1.PeerMessage
}

// applyMessages folds an event of a message, and notes what a result says that its task has read.
func (v *View) applyMessages(event *archon.Event, task *Task) {
	switch arm := event.Proto.GetEvent().(type) {
	case *orchestratorv1.RunEvent_MessageSent:
		sent := arm.MessageSent.GetMessage()
		if arm.MessageSent.GetFirstSeq() > 0 { // an earlier attempt has sent it
			return
		}
		kind := enumName(agentv1.MessageType_name, "MESSAGE_TYPE_", int32(sent.GetMessageType()))
		seq := sent.GetSeq()
		if seq == 0 {
			seq = event.Seq
		}
		v.Messages = append(v.Messages, &Message{
			event.TaskID, sent.GetSenderId(), sent.GetReceiverId(), kind, archon.TextOf(sent.GetContent()), seq, event.Time,
			failureOf(arm.MessageSent.GetFailure()), nil, sent,
		})
	case *orchestratorv1.RunEvent_Subscribed:
		task.topics = append(task.topics, arm.Subscribed.GetTopics()...)
	case *orchestratorv1.RunEvent_Dispatched:
		task.topics = nil
	case *orchestratorv1.RunEvent_Result:
		if read := arm.Result.GetMessagesRead(); read > 0 {
			v.noteRead(task, read)
		}
	}
}

func (v *View) noteRead(task *Task, read int64) {
	for _, message := range v.Messages {
		if message.Failure != nil || message.TaskID == task.ID || message.Seq > read {
			continue
		}
		named := message.ReceiverID == task.Role || message.ReceiverID == task.ID ||
			(task.StepID != "" && message.ReceiverID == task.StepID)
		if message.ReceiverID == "" {
			named = slices.ContainsFunc(task.topics, func(topic string) bool {
				return topic == "broadcast" || strings.TrimPrefix(topic, "type:") == message.Type
			})
		}
		if named {
			message.Readers = append(message.Readers, task.ID)
		}
	}
}
