package agent

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

const (
	maxCheckpoint = 1 << 20
	maxTurn       = 512 << 10
	maxTurnChars  = 60_000 // of a question or an answer that is remembered by default
	sessionKey    = "dev.archon/session"
)

// Answer is what a handler returns. Parts precede Text. Make one with Text, JSON or Ask.
type Answer struct {
	Text      string
	Parts     []archon.Part
	Usage     *archon.Usage // in place of what was recorded
	NoPublish bool          // the answer is not published to the shared memory
	Metadata  map[string]string
	// NewHistory is a stateful role's addition to its session history; nil: the question and the answer.
	NewHistory []HistoryMessage
	// Items are published right after the answer: to the edges that let one of them through it comes in place of the
	// answer. They are left out if the result would be too large with them.
	Items []Item
	// Question ends the attempt with a question to a person, in place of an answer.
	Question *Question
}

// Text returns an answer of one text.
func Text(text string) Answer { return Answer{Text: text} }

// JSON returns an answer of one part of JSON.
func JSON(value any) (Answer, error) {
	part, err := archon.JSONPart(value)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Parts: []archon.Part{part}}, nil
}

// Ask returns an answer that ends the attempt with a question to a person: its slot becomes free, and the run's clock
// stops. The next attempt, on any instance, has the answer as Task.Answers and the checkpoint as Task.Checkpoint.
func Ask(question Question) Answer { return Answer{Question: &question} }

// Rejected returns the error with which a handler refuses the task for good: no other instance of the role is tried.
func Rejected(message string) error {
	return &rejection{archon.NewError("REJECTED", message, archon.WithCode(codes.FailedPrecondition))}
}

type rejection struct{ cause *archon.Error }

// Error returns the message.
func (r *rejection) Error() string { return r.cause.Error() }

// Unwrap returns the typed error.
func (r *rejection) Unwrap() error { return r.cause }

// Item is an item to publish besides a role's answer, for edges of its policy or a wider one. Parts precede Text; an item
// without text is not published. The zero policy is FinalResponseOnly.
type Item struct {
	Text     string
	Policy   archon.Policy
	Parts    []archon.Part
	Metadata map[string]string
}

func (i Item) parts() []*commonv1.Part {
	parts := archon.PartMessages(i.Parts)
	if i.Text != "" {
		parts = append(parts, archon.TextPart(i.Text).Proto())
	}
	return parts
}

// HistoryMessage is one message of the session history of a stateful role. Role is system, user, assistant or tool; Parts
// precede Text.
type HistoryMessage struct {
	Role     string
	Text     string
	Parts    []archon.Part
	Metadata map[string]string
}

func (m HistoryMessage) proto() *agentv1.HistoryMessage {
	parts := archon.PartMessages(m.Parts)
	if m.Text != "" {
		parts = append(parts, archon.TextPart(m.Text).Proto())
	}
	return &agentv1.HistoryMessage{Role: cleanText(m.Role), Parts: parts, Metadata: cleanMap(m.Metadata)}
}

func historyMessage(message *agentv1.HistoryMessage) HistoryMessage {
	own := HistoryMessage{Role: message.GetRole(), Text: archon.TextOf(message.GetParts()), Metadata: message.GetMetadata()}
	for _, part := range message.GetParts() {
		if !archon.IsText(part) {
			own.Parts = append(own.Parts, archon.PartOf(part))
		}
	}
	return own
}

// ContextItem is the answer of an upstream role. Version is 0 if it comes from the run itself, not from shared memory.
type ContextItem struct {
	Role     string
	Text     string
	Parts    []archon.Part
	Policy   archon.Policy
	StepID   string
	Metadata map[string]string
	Ref      archon.MemoryRef
}

// DelegationTarget is a role that a coordinator may delegate to.
type DelegationTarget struct {
	Role        string
	Description string
}

// Delegation is a part of a task that another role does: Role, or any role with Capability. Parts precede Text.
type Delegation struct {
	Role       string
	Capability string
	Text       string
	Parts      []archon.Part
	// MemoKey is the key under which the mesh remembers the answer: a later attempt at this task that makes the same
	// delegation gets it at once. Two delegations are the same if they have the same key or, if that is empty, the same
	// target and input for the n-th time.
	MemoKey    string
	Timeout    time.Duration // 0: 60 seconds
	Budget     *archon.Budget
	Checkpoint []byte // saved with it, as by Task.Save
}

// Delegated is the answer to a delegation. Memoized: an earlier attempt at this task had made the same delegation.
type Delegated struct {
	Text     string
	Parts    []archon.Part
	Usage    archon.Usage
	Memoized bool
	Metadata map[string]string
}

func checkCheckpoint(data []byte) error {
	if len(data) > maxCheckpoint {
		return archon.NewError(archon.ReasonFrameTooLarge,
			fmt.Sprintf("a checkpoint of %d bytes is larger than the limit of %d", len(data), maxCheckpoint))
	}
	return nil
}

// cleanText returns a text that protobuf takes: bytes that are no UTF-8 become question marks.
func cleanText(text string) string { return strings.ToValidUTF8(text, "?") }

func cleanMap(values map[string]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	cleaned := make(map[string]string, len(values))
	for key, value := range values {
		cleaned[cleanText(key)] = cleanText(value)
	}
	return cleaned
}
