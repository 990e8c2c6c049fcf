package agent

import (
	"context"
	"errors"
	"log/slog"

	archon "github.com/archon-mesh/archon/sdk/go"
)

// MessageHandler handles a message while the handler of a task works. It returns the content of the answer; nil: there is
// none. An error becomes an answer of type error.
type MessageHandler func(ctx context.Context, message *Message, task *Task) (any, error)

// OnMessage handles messages while the handler of a task works: for the task, its step and its role, and of topics
// (broadcast, type:TYPE), one after the other. Task.Receive gets none of them then.
func OnMessage(handler MessageHandler, topics ...string) Option {
	return func(o *options) { o.onMessage, o.topics = handler, topics }
}

// withMessages returns a handler that passes each message on while another handler works. Its result waits for the message
// that is being handled.
func withMessages(handler Handler, onMessage MessageHandler, topics []string) Handler {
	return func(ctx context.Context, task *Task) (Answer, error) {
		err := task.Subscribe(topics...) // before anything that the handler tells others
		if errors.Is(err, archon.ErrUnimplemented) {
			return handler(ctx, task) // the caller of the task sends no messages
		}
		if err != nil {
			return Answer{}, err
		}
		reading, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				message, err := task.Receive(reading)
				if err != nil {
					return
				}
				handleMessage(ctx, message, task, onMessage)
			}
		}()
		defer func() {
			stop()
			<-done
		}()
		return handler(ctx, task)
	}
}

func handleMessage(ctx context.Context, message *Message, task *Task, onMessage MessageHandler) {
	answer, err := answerMessage(ctx, message, task, onMessage)
	if err == nil && answer == nil {
		return
	}
	if err == nil {
		_, err = task.Reply(ctx, message, answer)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	reason := archon.ToError(err, "").Error()
	slog.Warn("a message could not be handled", "sender", message.SenderID, "error", reason)
	_, refused := task.Send(ctx, Outgoing{
		To: message.SenderTaskID, Type: ErrorReport, CorrelationID: message.ID,
		Content: map[string]string{"error": reason, "task_id": task.ID()},
	})
	if refused != nil {
		slog.Debug("the sender gets no answer", "error", refused)
	}
}

func answerMessage(ctx context.Context, message *Message, task *Task, onMessage MessageHandler) (answer any, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = archon.FromPanic(recovered, "")
		}
	}()
	return onMessage(ctx, message, task)
}
