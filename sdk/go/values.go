package archon

import (
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// Part is a piece of content: text, bytes, a URL, or one JSON value. Filename is for display; keys of Metadata are in
// reverse DNS. Make one with TextPart, JSONPart, RawPart or URLPart.
type Part struct {
	Text      string
	Raw       []byte
	URL       string
	DataJSON  string
	Filename  string
	MediaType string
	Metadata  map[string]string
}

const jsonType = "application/json"

// TextPart returns a text as a part.
func TextPart(text string) Part { return Part{Text: text} }

// RawPart returns bytes as a part.
func RawPart(data []byte, mediaType string) Part { return Part{Raw: data, MediaType: mediaType} }

// URLPart returns the URL of content as a part.
func URLPart(url, mediaType string) Part { return Part{URL: url, MediaType: mediaType} }

// JSONPart returns a value as a part of JSON.
func JSONPart(value any) (Part, error) {
	text, err := encodeJSON(value)
	if err != nil {
		return Part{}, NewError(ReasonInvalidArgument, "the value is not JSON: "+err.Error())
	}
	return Part{DataJSON: text, MediaType: jsonType}, nil
}

// encodeJSON returns a value as JSON, without the escapes that HTML needs.
func encodeJSON(value any) (string, error) {
	text := &strings.Builder{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// Proto returns the part as a message. Bytes of a text that are no UTF-8 become question marks.
func (p Part) Proto() *commonv1.Part {
	message := &commonv1.Part{Filename: valid(p.Filename), MediaType: valid(p.MediaType)}
	switch {
	case p.DataJSON != "":
		message.Content = &commonv1.Part_DataJson{DataJson: valid(p.DataJSON)}
	case p.URL != "":
		message.Content = &commonv1.Part_Url{Url: valid(p.URL)}
	case p.Raw != nil:
		message.Content = &commonv1.Part_Raw{Raw: p.Raw}
	default:
		message.Content = &commonv1.Part_Text{Text: valid(p.Text)}
	}
	if len(p.Metadata) > 0 {
		message.Metadata = make(map[string]string, len(p.Metadata))
		for key, value := range p.Metadata {
			message.Metadata[valid(key)] = valid(value)
		}
	}
	return message
}

// PartOf returns the part that a message has.
func PartOf(message *commonv1.Part) Part {
	return Part{
		Text: message.GetText(), Raw: message.GetRaw(), URL: message.GetUrl(), DataJSON: message.GetDataJson(),
		Filename: message.GetFilename(), MediaType: message.GetMediaType(), Metadata: message.GetMetadata(),
	}
}

// PartsOf returns the parts of messages.
func PartsOf(messages []*commonv1.Part) []Part {
	parts := make([]Part, len(messages))
	for i, message := range messages {
		parts[i] = PartOf(message)
	}
	return parts
}

// PartMessages returns the messages of parts.
func PartMessages(parts []Part) []*commonv1.Part {
	messages := make([]*commonv1.Part, len(parts))
	for i, part := range parts {
		messages[i] = part.Proto()
	}
	return messages
}

// TextOf returns the text of parts: that of all text parts, and the JSON of those with the media type application/json or
// none, joined by empty lines.
func TextOf(parts []*commonv1.Part) string {
	if len(parts) == 1 {
		text, _ := textOfPart(parts[0])
		return text
	}
	var texts []string
	for _, part := range parts {
		if text, ok := textOfPart(part); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func textOfPart(part *commonv1.Part) (string, bool) {
	switch content := part.GetContent().(type) {
	case *commonv1.Part_Text:
		return content.Text, true
	case *commonv1.Part_DataJson:
		kind, _, _ := strings.Cut(part.GetMediaType(), ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
		return content.DataJson, kind == "" || kind == jsonType
	}
	return "", false
}

// IsText reports whether a part is text, or a JSON value that is read as text.
func IsText(part *commonv1.Part) bool {
	_, ok := textOfPart(part)
	return ok
}

// Usage is what attempts have spent: tokens, calls, and cost in millionths of a US dollar.
type Usage struct {
	InputTokens       int64
	OutputTokens      int64
	ModelCalls        int64
	ToolCalls         int64
	CostMicroUSD      int64
	CachedInputTokens int64
	CacheWriteTokens  int64
	Estimated         bool
}

// Add returns the sum, which is estimated if one of the two is.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		u.InputTokens + other.InputTokens, u.OutputTokens + other.OutputTokens, u.ModelCalls + other.ModelCalls,
		u.ToolCalls + other.ToolCalls, u.CostMicroUSD + other.CostMicroUSD,
		u.CachedInputTokens + other.CachedInputTokens, u.CacheWriteTokens + other.CacheWriteTokens,
		u.Estimated || other.Estimated,
	}
}

// Proto returns the usage as a message.
func (u Usage) Proto() *commonv1.Usage {
	return &commonv1.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ModelCalls: u.ModelCalls, ToolCalls: u.ToolCalls,
		CostMicroUsd: u.CostMicroUSD, Estimated: u.Estimated, CachedInputTokens: u.CachedInputTokens,
		CacheWriteTokens: u.CacheWriteTokens,
	}
}

// UsageOf returns the usage that a message has. Agents report it themselves: a negative count reads as 0.
func UsageOf(message *commonv1.Usage) Usage {
	return Usage{
		max(0, message.GetInputTokens()), max(0, message.GetOutputTokens()), max(0, message.GetModelCalls()),
		max(0, message.GetToolCalls()), max(0, message.GetCostMicroUsd()), max(0, message.GetCachedInputTokens()),
		max(0, message.GetCacheWriteTokens()), message.GetEstimated(),
	}
}

// Budget is a budget of a run or a delegation, or a slice of one. A field that is 0 sets no limit.
type Budget struct {
	MaxTokens       int64
	MaxCostMicroUSD int64
	MaxTime         time.Duration
	MaxDepth        int
	MaxModelCalls   int64
}

// Proto returns the budget as a message.
func (b Budget) Proto() *commonv1.Budget {
	message := &commonv1.Budget{
		MaxTokens: b.MaxTokens, MaxCostMicroUsd: b.MaxCostMicroUSD, MaxDepth: int32(b.MaxDepth),
		MaxModelCalls: b.MaxModelCalls,
	}
	if b.MaxTime > 0 {
		message.MaxTime = durationpb.New(b.MaxTime)
	}
	return message
}

// BudgetOf returns the budget that a message has.
func BudgetOf(message *commonv1.Budget) Budget {
	return Budget{
		max(0, message.GetMaxTokens()), max(0, message.GetMaxCostMicroUsd()), max(0, message.GetMaxTime().AsDuration()),
		max(0, int(message.GetMaxDepth())), max(0, message.GetMaxModelCalls()),
	}
}

// Policy says how much of a role's work an edge lets through, and what kind of content an item is.
type Policy int32

// The policies; each includes those before it.
const (
	FinalResponseOnly Policy = iota + 1
	ToolResults
	FullHistory
)

// PolicyOf returns the policy of the contract; the narrowest one if it is unset or unknown.
func PolicyOf(policy commonv1.PropagationPolicy) Policy {
	if policy < 1 || policy > 3 {
		return FinalResponseOnly
	}
	return Policy(policy)
}

// Proto returns the policy of the contract.
func (p Policy) Proto() commonv1.PropagationPolicy {
	return commonv1.PropagationPolicy(PolicyOf(commonv1.PropagationPolicy(p)))
}

// MemoryRef identifies a published answer by its place in a scope, or by the event of the run that holds it.
type MemoryRef struct {
	Scope   string
	Role    string
	Version int64
	RunID   string
	Seq     int64
}

// MemoryRefOf returns the reference that a message has.
func MemoryRefOf(message *commonv1.MemoryRef) MemoryRef {
	return MemoryRef{
		message.GetScope(), message.GetRole(), message.GetVersion(), message.GetRunId(), message.GetSeq(),
	}
}

// TaskState is the state of a task or a run.
type TaskState string

// The states.
const (
	StateUnspecified   TaskState = ""
	StateSubmitted     TaskState = "SUBMITTED"
	StateWorking       TaskState = "WORKING"
	StateCompleted     TaskState = "COMPLETED"
	StateFailed        TaskState = "FAILED"
	StateCanceled      TaskState = "CANCELED"
	StateInputRequired TaskState = "INPUT_REQUIRED"
	StateRejected      TaskState = "REJECTED"
	StateAuthRequired  TaskState = "AUTH_REQUIRED"
)

// StateOf returns the state of the contract; StateUnspecified for one that this version does not know.
func StateOf(state commonv1.TaskState) TaskState {
	name, ok := commonv1.TaskState_name[int32(state)]
	if !ok || state == 0 {
		return StateUnspecified
	}
	return TaskState(strings.TrimPrefix(name, "TASK_STATE_"))
}

// Proto returns the state of the contract.
func (s TaskState) Proto() commonv1.TaskState {
	return commonv1.TaskState(commonv1.TaskState_value["TASK_STATE_"+string(s)])
}

// Final reports whether the task or run has ended.
func (s TaskState) Final() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	}
	return false
}
