package agent

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

const maxRecordBytes = 1 << 20

// ModelCall is a call of a model, as it was made. Request and Response are JSON values.
type ModelCall struct {
	Model    string
	Request  any
	Response any
	Started  time.Time // zero: now, less Duration
	Duration time.Duration
	Usage    archon.Usage
	// Retried: the next try needs the reservation, which is not released.
	Retried bool
}

// ToolCall is a call of a tool, as it was made. Arguments and Result are JSON values.
type ToolCall struct {
	Tool      string
	Arguments any
	Result    any
	Started   time.Time
	Duration  time.Duration
}

// record is a recorded call and its encoding as an arm.
type record struct {
	message *agentv1.CallRecord
	content []byte
}

// withoutPayload returns the encoding of a copy without request and response, for a record that does not fit in a frame.
func (r record) withoutPayload() []byte {
	small, _ := proto.Clone(r.message).(*agentv1.CallRecord)
	small.RequestJson, small.ResponseJson = leftOut(len(small.RequestJson)), leftOut(len(small.ResponseJson))
	content, err := frames.Content(armRecord, small)
	if err != nil {
		slog.Error("a record cannot be encoded", "error", err)
	}
	return content
}

type recordMode int

const (
	recordFull recordMode = iota
	recordRedacted
	recordOff
)

// mode returns how much of a call is recorded (ARCHON_RECORDS); redacted for an unknown value, which may be meant to hide
// something.
func mode() recordMode {
	switch value := os.Getenv("ARCHON_RECORDS"); value {
	case "", "full":
		return recordFull
	case "redacted":
		return recordRedacted
	case "off":
		return recordOff
	default:
		slog.Warn("ARCHON_RECORDS has an unknown value: contents are not recorded", "value", value)
		return recordRedacted
	}
}

func newRecord(
	kind agentv1.RecordKind, target string, request, response any, started time.Time, took time.Duration, usage *archon.Usage,
) (record, bool, error) {
	recorded := mode()
	if recorded == recordOff {
		return record{}, false, nil
	}
	requestJSON, err := payload(request, recorded)
	if err != nil {
		return record{}, false, err
	}
	responseJSON, err := payload(response, recorded)
	if err != nil {
		return record{}, false, err
	}
	if started.IsZero() {
		started = time.Now().Add(-took)
	}
	message := &agentv1.CallRecord{
		Kind: kind, Target: cleanText(target), RequestJson: requestJSON, ResponseJson: responseJSON,
		StartTime: timestamppb.New(started.Truncate(time.Microsecond)), Duration: durationpb.New(took),
	}
	if usage != nil {
		message.Usage = usage.Proto()
	}
	content, err := frames.Content(armRecord, message)
	return record{message, content}, true, err
}

func payload(value any, recorded recordMode) (string, error) {
	text, err := encodeJSON(value)
	if err != nil {
		return "", archon.NewError(archon.ReasonInvalidArgument, "a recorded value is not JSON: "+err.Error())
	}
	if recorded == recordRedacted {
		if own, ok := value.(string); ok {
			text = own
		}
		return redacted(text), nil
	}
	if len(text) > maxRecordBytes {
		return leftOut(len(text)), nil
	}
	return text, nil
}

func encodeJSON(value any) (string, error) {
	if raw, ok := value.(json.RawMessage); ok && json.Valid(raw) {
		return cleanText(string(raw)), nil
	}
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

func leftOut(size int) string {
	return fmt.Sprintf(`{"archon.dev/left-out": "%d bytes, too large to record"}`, size)
}

// redactionKey makes hashes of which texts cannot be guessed: no record has it.
var redactionKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return key
})

// redacted returns the recorded substitute of a text: its characters, estimated tokens, and 64 bits of HMAC-SHA256.
func redacted(text string) string {
	digest := hmac.New(sha256.New, redactionKey())
	digest.Write([]byte(text))
	chars := utf8.RuneCountInString(text)
	return fmt.Sprintf(`{"redacted":{"chars":%d,"tokens":%d,"hash":"%s"}}`, chars, (chars+3)/4,
		hex.EncodeToString(digest.Sum(nil))[:16])
}
