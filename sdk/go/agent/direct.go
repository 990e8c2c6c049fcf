package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	grpcserver "github.com/archon-mesh/archon/sdk/go/internal/server"
)

const (
	maxDirect      = 1_000   // messages that wait for the handler
	maxDirectBytes = 8 << 20 // of them
	maxPerCall     = 100
	maxRemembered  = 10_000 // calls whose request id is remembered
)

// DirectHandler handles a message that another instance delivers directly, outside of any run.
type DirectHandler func(ctx context.Context, message *Message)

// OnDirect handles messages that other instances deliver directly, one after the other. Message.SenderID is the role of the
// sender by its credentials, empty in a mesh without. Without a handler such messages are refused.
func OnDirect(handler DirectHandler) Option { return func(o *options) { o.onDirect = handler } }

type directMessage struct {
	message *Message
	until   time.Time // zero: without end
	size    int
}

type directKey struct{ sender, requestID string }

type directRequest struct {
	digest [32]byte
	ids    []string
}

type directInbox struct {
	role    string
	types   map[string]string
	handler DirectHandler
	ctx     context.Context //nolint:containedctx // of the handler
	cancel  context.CancelFunc
	done    chan struct{}
	arrived chan struct{}

	mu       sync.Mutex
	waiting  []directMessage
	bytes    int
	requests bounded[directKey, directRequest]
}

func newDirectInbox(role string, types map[string]string, handler DirectHandler) *directInbox {
	ctx, cancel := context.WithCancel(context.Background())
	return &directInbox{
		role: role, types: types, handler: handler, ctx: ctx, cancel: cancel, done: make(chan struct{}),
		arrived: make(chan struct{}, 1), requests: newBounded[directKey, directRequest](maxRemembered),
	}
}

func (d *directInbox) start() {
	if d.handler == nil {
		close(d.done)
		return
	}
	go d.handOver()
}

func (d *directInbox) close() {
	d.cancel()
	<-d.done
}

func (d *directInbox) deliver(ctx context.Context, request *agentv1.DeliverRequest) (*agentv1.DeliverResponse, error) {
	if d.handler == nil {
		return nil, archon.NewError(archon.ReasonNotServed, d.role+" takes no messages from other instances")
	}
	sender := ""
	if caller, ok := grpcserver.CallerOf(ctx); ok {
		sender = caller.Name
		if caller.Kind != "agent" {
			sender = archon.CallOf(ctx).Identity
		}
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	key, digest := directKey{sender, request.GetRequestId()}, sha256.Sum256(data)
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.requests.get(key); ok {
		if known.digest != digest {
			return nil, archon.NewError(archon.ReasonRequestIDReused,
				"the request id '"+request.GetRequestId()+"' came before with other messages")
		}
		return &agentv1.DeliverResponse{AcceptedMessageIds: known.ids}, nil
	}
	if err := d.check(request, sender); err != nil {
		return nil, err
	}
	if len(d.waiting)+len(request.GetMessages()) > maxDirect || d.bytes+len(data) > maxDirectBytes {
		return nil, archon.NewError(archon.ReasonResourceExhausted, fmt.Sprintf("%d messages wait for %s", len(d.waiting), d.role),
			archon.WithRetryDelay(time.Second))
	}
	now := time.Now()
	var ids []string
	for _, message := range request.GetMessages() {
		ids = append(ids, message.GetMessageId())
		own := directMessage{messageOf(message), time.Time{}, proto.Size(message)}
		own.message.SenderID, own.message.SenderTaskID, own.message.Seq = sender, "", 0
		own.message.SendTime = timestamppb.New(now).AsTime()
		if message.Ttl != nil {
			own.until = now.Add(message.GetTtl().AsDuration())
		}
		d.waiting = append(d.waiting, own)
		d.bytes += own.size
	}
	d.requests.set(key, directRequest{digest, ids})
	select {
	case d.arrived <- struct{}{}:
	default:
	}
	return &agentv1.DeliverResponse{AcceptedMessageIds: ids}, nil
}

func (d *directInbox) check(request *agentv1.DeliverRequest, sender string) error {
	var violations []archon.ErrorOption
	add := func(field, why string) { violations = append(violations, archon.WithViolation(field, why)) }
	if n := utf8.RuneCountInString(request.GetRequestId()); n < 1 || n > maxMessageID {
		add("request_id", "needs 1 to 256 characters")
	}
	if n := len(request.GetMessages()); n < 1 || n > maxPerCall {
		add("messages", "needs 1 to 100 messages")
	}
	for i, message := range request.GetMessages()[:min(maxPerCall, len(request.GetMessages()))] {
		if n := utf8.RuneCountInString(message.GetMessageId()); n < 1 || n > maxMessageID {
			add(fmt.Sprintf("messages[%d].message_id", i), "needs 1 to 256 characters")
		}
		size := 0
		for _, part := range message.GetContent() {
			size += proto.Size(part)
		}
		if size > maxPeerMessageBytes {
			add(fmt.Sprintf("messages[%d].content", i), "has more than 65536 bytes")
		}
	}
	if len(violations) > 0 {
		return archon.NewError(archon.ReasonInvalidArgument, "the messages cannot be delivered", violations...)
	}
	for _, message := range request.GetMessages() {
		if err := d.checkProfile(messageOf(message).Type, sender); err != nil {
			return err
		}
	}
	return nil
}

// checkProfile returns MESSAGE_NOT_ALLOWED if the profile of the role does not allow a type of messages, or not from the sender.
func (d *directInbox) checkProfile(kind MessageType, sender string) error {
	if len(d.types) == 0 {
		return nil
	}
	roles, ok := d.types[string(kind)]
	if ok && strings.TrimSpace(roles) != "" {
		var named []string
		for _, role := range strings.Split(roles, ",") {
			named = append(named, strings.TrimSpace(role))
		}
		ok = slices.Contains(named, sender)
	}
	if ok {
		return nil
	}
	return archon.NewError(archon.ReasonMessageNotAllowed,
		d.role+" does not exchange messages of type "+string(kind)+" with '"+sender+"'")
}

func (d *directInbox) handOver() {
	defer close(d.done)
	for {
		d.mu.Lock()
		if len(d.waiting) > 0 {
			next := d.waiting[0]
			d.waiting = d.waiting[1:]
			d.bytes -= next.size
			d.mu.Unlock()
			if d.ctx.Err() != nil {
				return
			}
			if next.until.IsZero() || time.Now().Before(next.until) {
				d.handle(next.message)
			}
			continue
		}
		d.mu.Unlock()
		select {
		case <-d.arrived:
		case <-d.ctx.Done():
			return
		}
	}
}

// handle calls the handler; a fault of it costs its message alone.
func (d *directInbox) handle(message *Message) {
	defer func() {
		if recovered := recover(); recovered != nil {
			slog.Error("the handler of direct messages failed", "error", recovered, "stack", string(debug.Stack()))
		}
	}()
	d.handler(d.ctx, message)
}
