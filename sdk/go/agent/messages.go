package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

const (
	maxPeerMessageBytes = 64 << 10 // of a message's content
	maxMessageID        = 256
	replyPrefix         = "q-" // begins the ids of messages that wait for a reply
)

// MessageType is the purpose of a message between agents.
type MessageType string

// The types. A message of a type that this version does not know is a notification.
const (
	TaskRequest      MessageType = "task_request"
	TaskResponse     MessageType = "task_response"
	StatusUpdate     MessageType = "status_update"
	ErrorReport      MessageType = "error"
	InformationShare MessageType = "information_share"
	ContextRequest   MessageType = "context_request"
	HelpRequest      MessageType = "help_request"
	Notification     MessageType = "notification"
)

func (m MessageType) proto() (agentv1.MessageType, bool) {
	number, ok := agentv1.MessageType_value["MESSAGE_TYPE_"+strings.ToUpper(string(m))]
	return agentv1.MessageType(number), ok && number != 0
}

// Message is a message of another agent of the run. SenderTaskID is the task to which an answer goes.
type Message struct {
	ID            string
	SenderID      string
	SenderTaskID  string
	ReceiverID    string
	Type          MessageType
	Parts         []archon.Part
	CorrelationID string
	SendTime      time.Time
	Seq           int64
}

// Text returns the text of the message; JSON if it is not a text.
func (m *Message) Text() string { return archon.TextOf(archon.PartMessages(m.Parts)) }

// Decode reads the content of the message, one JSON value, into a value.
func (m *Message) Decode(into any) error {
	if err := json.Unmarshal([]byte(m.Text()), into); err != nil {
		return archon.NewError(archon.ReasonInvalidArgument, "the content of the message is no such JSON value: "+err.Error())
	}
	return nil
}

func messageOf(message *agentv1.PeerMessage) *Message {
	kind := Notification
	if name, ok := agentv1.MessageType_name[int32(message.GetMessageType())]; ok && message.GetMessageType() != 0 {
		kind = MessageType(strings.ToLower(strings.TrimPrefix(name, "MESSAGE_TYPE_")))
	}
	return &Message{
		message.GetMessageId(), message.GetSenderId(), message.GetSenderTaskId(), message.GetReceiverId(), kind,
		archon.PartsOf(message.GetContent()), message.GetCorrelationId(), message.GetSendTime().AsTime(), message.GetSeq(),
	}
}

// Outgoing is a message to send. Content is a text or another JSON value; To is a role, a step or a task
// (Message.SenderTaskID), empty: all that have subscribed to broadcast, or to type:TYPE. Without a Type it is a
// notification. After TTL it is not delivered any more (0: as long as the run goes on).
type Outgoing struct {
	To            string
	Content       any
	Type          MessageType
	CorrelationID string
	TTL           time.Duration
	ID            string // made if empty: a later attempt that sends the same message does not send it twice
}

// inbox has the messages that an attempt has received and its handler has not read yet, each once. The server's lock guards
// it. The mesh bounds them: 1,000, and 8 MiB, per run.
type inbox struct {
	unread  []*Message
	replies map[string]*Message
	seen    map[int64]struct{}
	news    chan struct{} // closed at the next message; nil if nobody waits
	readSeq int64         // the highest number of a message that was read
	topics  map[string]bool
	numbers map[string]int
}

// put takes a message in. One that has come before is dropped: a new owner of the run sends all of them again.
func (i *inbox) put(message *agentv1.PeerMessage) {
	if i.seen == nil {
		i.seen, i.replies = map[int64]struct{}{}, map[string]*Message{}
	}
	if _, known := i.seen[message.GetSeq()]; known {
		return
	}
	i.seen[message.GetSeq()] = struct{}{}
	own := messageOf(message)
	if strings.HasPrefix(own.CorrelationID, replyPrefix) {
		if _, known := i.replies[own.CorrelationID]; !known {
			i.replies[own.CorrelationID] = own
		}
	} else {
		i.unread = append(i.unread, own)
	}
	if i.news != nil {
		close(i.news)
		i.news = nil
	}
}

// Subscribe subscribes to the messages for this task, its step and its role, and to topics (broadcast, type:TYPE). Receive
// subscribes by itself.
func (t *Task) Subscribe(topics ...string) error {
	for _, topic := range topics {
		kind, isType := strings.CutPrefix(topic, "type:")
		_, known := MessageType(kind).proto()
		if topic != "broadcast" && (!isType || !known) {
			return invalid("topics", "must be `broadcast` or `type:TYPE`, and not '"+topic+"'")
		}
	}
	defer t.lock()()
	var added []string
	for _, topic := range topics {
		if !t.inbox.topics[topic] {
			added = append(added, topic)
		}
	}
	if t.inbox.topics != nil && len(added) == 0 {
		return nil
	}
	content, err := frames.Content(armSubscribe, &agentv1.Subscribe{Topics: added})
	if err != nil {
		return err
	}
	if err := t.attempt.calls.check("messages", content); err != nil {
		return err
	}
	t.attempt.send(content, true)
	if t.inbox.topics == nil {
		t.inbox.topics = map[string]bool{}
	}
	for _, topic := range added {
		t.inbox.topics[topic] = true
	}
	return nil
}

// Receive waits for the next message for this task, its step and its role, and for the topics that Subscribe has named: in
// order, from the first of the run on. Answers to Request are not among them.
func (t *Task) Receive(ctx context.Context) (*Message, error) {
	if err := t.Subscribe(); err != nil {
		return nil, err
	}
	return t.next(ctx, func(i *inbox) *Message {
		if len(i.unread) == 0 {
			return nil
		}
		message := i.unread[0]
		i.unread = i.unread[1:]
		return message
	})
}

func (t *Task) next(ctx context.Context, take func(*inbox) *Message) (*Message, error) {
	for {
		unlock := t.lock()
		if message := take(&t.inbox); message != nil {
			t.inbox.readSeq = max(t.inbox.readSeq, message.Seq)
			unlock()
			return message, nil
		}
		if t.inbox.news == nil {
			t.inbox.news = make(chan struct{})
		}
		news := t.inbox.news
		unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return nil, causeOf(ctx)
		case <-t.attempt.ctx.Done():
			return nil, causeOf(t.attempt.ctx)
		}
	}
}

// Send sends a message to agents of the run, and returns the number of the event that holds it: it is delivered once to each
// attempt that reads it, also after a crash. It fails with NO_RECEIVER, MESSAGE_NOT_ALLOWED, TOO_MANY_MESSAGES,
// INVALID_ARGUMENT, and NOT_SERVED if the caller of this task does not support messages.
func (t *Task) Send(ctx context.Context, message Outgoing) (int64, error) {
	_, seq, err := t.send(ctx, message, false)
	return seq, err
}

// Reply answers a message; by default with a task_response.
func (t *Task) Reply(ctx context.Context, message *Message, content any) (int64, error) {
	return t.Send(ctx, Outgoing{To: message.SenderTaskID, Content: content, Type: TaskResponse, CorrelationID: message.ID})
}

// Request sends a message, by default a task_request, and returns the answer. If no task of the receiver is reading
// messages, the request becomes a task of its own for the role, as by Delegate. Without a deadline of the context it waits
// for 60 seconds.
func (t *Task) Request(ctx context.Context, message Outgoing) (*Message, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	if err := t.Subscribe(); err != nil {
		return nil, err
	}
	if message.Type == "" {
		message.Type = TaskRequest
	}
	memo := message.ID
	if memo != "" {
		message.ID = replyPrefix + memo
	}
	id, _, err := t.send(ctx, message, true)
	if errors.Is(err, archon.ReasonNoReceiver) {
		return t.requestAsTask(ctx, message, memo)
	}
	if err != nil {
		return nil, err
	}
	return t.next(ctx, func(i *inbox) *Message {
		reply := i.replies[id]
		delete(i.replies, id)
		return reply
	})
}

func (t *Task) requestAsTask(ctx context.Context, message Outgoing, memo string) (*Message, error) {
	text, isText := message.Content.(string)
	if !isText {
		encoded, err := encodeJSON(message.Content)
		if err != nil {
			return nil, err
		}
		text = encoded
	}
	done, err := t.Delegate(ctx, Delegation{Role: message.To, Text: text, MemoKey: memo})
	if err != nil {
		return nil, err
	}
	return &Message{SenderID: message.To, Type: TaskResponse, Parts: done.Parts, SendTime: time.Now()}, nil
}

func (t *Task) send(ctx context.Context, message Outgoing, expectsReply bool) (string, int64, error) {
	peer, err := t.outgoing(message, expectsReply)
	if err != nil {
		return "", 0, err
	}
	unlock := t.lock()
	calls := &t.attempt.calls
	if calls.sending == nil {
		calls.sending = make(chan struct{}, maxSending)
	}
	sending := calls.sending
	unlock()
	if err := enter(ctx, sending); err != nil {
		return "", 0, err
	}
	defer func() { <-sending }()
	frame, err := calls.call(ctx, "messages", armSendMessage, peer.GetMessageId(), peer, true)
	if err != nil {
		return "", 0, err
	}
	result := frame.GetMessageResult()
	if result.Failure != nil {
		return "", 0, archon.FromFailure(result.GetFailure())
	}
	return peer.GetMessageId(), result.GetSeq(), nil
}

func (t *Task) outgoing(message Outgoing, expectsReply bool) (*agentv1.PeerMessage, error) {
	if message.Type == "" {
		message.Type = Notification
	}
	kind, ok := message.Type.proto()
	if !ok {
		return nil, archon.NewError(archon.ReasonInvalidArgument, "'"+string(message.Type)+"' is not a type of messages")
	}
	part := archon.TextPart("")
	if text, isText := message.Content.(string); isText {
		part.Text = text
	} else {
		var err error
		if part, err = archon.JSONPart(message.Content); err != nil {
			return nil, err
		}
	}
	peer := &agentv1.PeerMessage{
		ReceiverId: cleanText(message.To), MessageType: kind, CorrelationId: cleanText(message.CorrelationID),
		ExpectsReply: expectsReply,
	}
	peer.Content = append(peer.Content, part.Proto())
	if size := proto.Size(peer.GetContent()[0]); size > maxPeerMessageBytes {
		return nil, invalid("content", fmt.Sprintf(
			"has %d bytes, at most %d are allowed; give large content by URL", size, maxPeerMessageBytes))
	}
	if n := utf8.RuneCountInString(message.ID); n > maxMessageID {
		return nil, archon.NewError(archon.ReasonInvalidArgument,
			fmt.Sprintf("the message_id has %d characters, at most %d", n, maxMessageID))
	}
	if message.TTL < 0 {
		return nil, archon.NewError(archon.ReasonInvalidArgument, "the ttl of a message must be above 0")
	}
	peer.MessageId = cleanText(message.ID)
	if peer.MessageId == "" {
		peer.MessageId = t.messageID(peer)
	}
	if message.TTL > 0 {
		peer.Ttl = durationpb.New(message.TTL)
	}
	return peer, nil
}

// messageID returns the id of the n-th message that is equal to this one: a later attempt gives the same message the same id.
func (t *Task) messageID(peer *agentv1.PeerMessage) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(peer)
	if err != nil {
		data = []byte(peer.String())
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])[:32]
	defer t.lock()()
	if t.inbox.numbers == nil {
		t.inbox.numbers = map[string]int{}
	}
	t.inbox.numbers[digest]++
	id := digest + "." + strconv.Itoa(t.inbox.numbers[digest])
	if peer.GetExpectsReply() {
		return replyPrefix + id
	}
	return id
}
