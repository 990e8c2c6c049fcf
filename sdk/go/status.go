package archon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

const (
	domain          = "archon.dev"
	reasonKey       = "archon.dev/reason" // the metadata key of a reason that is not in the contract
	kindKey         = "archon.dev/kind"   // the metadata key of a kind that is not that of the reason
	maxDetailsBytes = 4096                // larger trailers fail at random
	maxCauses       = 16
	maxMessageBytes = 1024
)

// tooLarge matches the texts of gRPC's libraries about a message above the limit of a channel or server.
var tooLarge = regexp.MustCompile(`(larger than max|exceeds maximum size)\b`)

// GRPCStatus returns the error as a status with google.rpc details of at most 4 KB; gRPC calls it for an error that a
// handler of an RPC returns. Long texts are cut, details that do not fit are dropped.
func (e *Error) GRPCStatus() *status.Status {
	message := &statuspb.Status{Code: int32(e.Code), Message: cut(e.Error(), maxMessageBytes)}
	add := func(detail proto.Message) {
		packed, err := anypb.New(detail)
		if err == nil && proto.Size(message)+proto.Size(packed)+8 <= maxDetailsBytes {
			message.Details = append(message.Details, packed)
		}
	}
	info := &errdetails.ErrorInfo{Reason: cut(string(e.Reason), 63), Domain: domain, Metadata: map[string]string{}}
	for i, key := range sortedKeys(e.Metadata) {
		if i == 6 {
			break
		}
		info.Metadata[cut(key, 63)] = cut(e.Metadata[key], 256)
	}
	if e.Kind != "" && e.Kind != defaultKind(e.Code, e.Reason) {
		info.Metadata[kindKey] = cut(e.Kind, 63)
	}
	add(info)
	if e.RetryDelay != nil {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(*e.RetryDelay)})
	}
	if len(e.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, violation := range e.Violations[:min(5, len(e.Violations))] {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: cut(violation.Field, 64), Description: cut(violation.Description, 128),
			})
		}
		add(bad)
	}
	return status.FromProto(message)
}

// FromStatus returns the error that a status has: of the same code, with the same reason and details.
func FromStatus(st *status.Status) *Error {
	e := &Error{Code: st.Code(), Message: st.Message()}
	found := false
	for _, packed := range st.Proto().GetDetails() {
		detail, err := packed.UnmarshalNew()
		if err != nil {
			continue
		}
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == domain {
				found = true
				e.Reason, e.Metadata = Reason(detail.GetReason()), detail.GetMetadata()
				e.Kind = e.Metadata[kindKey]
				delete(e.Metadata, kindKey)
			}
		case *errdetails.RetryInfo:
			delay := detail.GetRetryDelay().AsDuration()
			e.RetryDelay = &delay
		case *errdetails.BadRequest:
			for _, each := range detail.GetFieldViolations() {
				e.Violations = append(e.Violations, FieldViolation{each.GetField(), each.GetDescription()})
			}
		}
	}
	if !found && e.Code == codes.ResourceExhausted && tooLarge.MatchString(e.Message) {
		e.Code, e.Reason = codes.InvalidArgument, ReasonMessageTooLarge
	}
	if int(e.Code) >= len(codeNames) {
		e.Code = codes.Unknown
	}
	e.complete()
	return e
}

// ToError converts any error to an *Error: one in its chain, the one that a gRPC status has, an error of a context.
// Another one becomes INTERNAL: its text is only logged, under an incident id that the message has. kind is the kind of
// such an error; empty: infrastructure.fault. The log has the attributes, too.
func ToError(err error, kind string, attributes ...any) *Error {
	if err == nil {
		return nil
	}
	if found := AsError(err); found != nil {
		return found
	}
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return FromStatus(withStatus.GRPCStatus())
	}
	var reason Reason
	if errors.As(err, &reason) {
		return NewError(reason, err.Error())
	}
	var code Code
	if errors.As(err, &code) {
		return NewError("", err.Error(), WithCode(codes.Code(code)))
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return NewError(ReasonDeadlineExceeded, "the deadline passed")
	case errors.Is(err, context.Canceled):
		return NewError(ReasonCancelled, "the call was cancelled")
	}
	return incident("internal error", err.Error(), "", kind, attributes)
}

// FromPanic returns the error of a panic: INTERNAL, whose text and stack are only logged, with the attributes.
func FromPanic(recovered any, kind string, attributes ...any) *Error {
	return incident("panic", fmt.Sprint(recovered), string(debug.Stack()), kind, attributes)
}

func incident(what, text, stack, kind string, more []any) *Error {
	id := make([]byte, 6)
	_, _ = rand.Read(id)
	name := hex.EncodeToString(id)
	attributes := append([]any{"incident", name, "error", text}, more...)
	if stack != "" {
		attributes = append(attributes, "stack", stack)
	}
	slog.Error(what, attributes...)
	return NewError(ReasonInternal, "internal error; see incident "+name+" in the log of the process",
		WithMetadata("incident", name), WithKind(kind))
}

// ToFailure returns the flat form of an error for frames and events. A reason that is not in the contract goes into the
// metadata. Causes are flat: the causes of a cause follow it.
func (e *Error) ToFailure() *commonv1.Failure {
	failure := e.flat()
	waiting := append([]*Error{}, e.Causes...)
	for len(waiting) > 0 && len(failure.Causes) < maxCauses {
		cause := waiting[0]
		failure.Causes = append(failure.Causes, cause.flat())
		waiting = append(append([]*Error{}, cause.Causes...), waiting[1:]...)
	}
	return failure
}

func (e *Error) flat() *commonv1.Failure {
	e = e.clone()
	e.complete()
	failure := &commonv1.Failure{
		Code:         int32(e.Code),
		Message:      cut(e.Error(), maxMessageBytes),
		FailureClass: commonv1.FailureClass(e.Class),
		Retry:        commonv1.Retry(e.Retry),
		Severity:     commonv1.Severity(e.Severity),
		Kind:         valid(e.Kind),
	}
	if len(e.Metadata) > 0 {
		failure.Metadata = make(map[string]string, len(e.Metadata))
		for key, value := range e.Metadata {
			failure.Metadata[valid(key)] = valid(value)
		}
	}
	for _, violation := range e.Violations {
		failure.FieldViolations = append(failure.FieldViolations,
			&commonv1.FieldViolation{Field: valid(violation.Field), Description: valid(violation.Description)})
	}
	if entry, ok := reasonTable[e.Reason]; ok {
		failure.Reason = commonv1.ErrorReason(entry.number)
	} else if e.Reason != "" {
		if failure.Metadata == nil {
			failure.Metadata = map[string]string{}
		}
		failure.Metadata[reasonKey] = valid(string(e.Reason))
	}
	if e.RetryDelay != nil {
		failure.RetryDelay = durationpb.New(*e.RetryDelay)
	}
	return failure
}

// FromFailure is the inverse of ToFailure. A value of an enum that this version does not know reads as unset.
func FromFailure(failure *commonv1.Failure) *Error {
	code := codes.Code(failure.GetCode())
	if failure.GetCode() <= 0 || int(failure.GetCode()) >= len(codeNames) {
		code = codes.Unknown
	}
	e := &Error{Code: code, Message: failure.GetMessage(), Kind: failure.GetKind()}
	if _, known := commonv1.FailureClass_name[int32(failure.GetFailureClass())]; known {
		e.Class = FailureClass(failure.GetFailureClass())
	}
	if _, known := commonv1.Severity_name[int32(failure.GetSeverity())]; known {
		e.Severity = Severity(failure.GetSeverity())
	}
	if _, known := commonv1.Retry_name[int32(failure.GetRetry())]; known {
		e.Retry = Retry(failure.GetRetry())
	}
	for key, value := range failure.GetMetadata() {
		if key == reasonKey {
			e.Reason = Reason(value)
			continue
		}
		if e.Metadata == nil {
			e.Metadata = map[string]string{}
		}
		e.Metadata[key] = value
	}
	if name, ok := commonv1.ErrorReason_name[int32(failure.GetReason())]; ok && e.Reason == "" && failure.GetReason() != 0 {
		e.Reason = Reason(strings.TrimPrefix(name, "ERROR_REASON_"))
	}
	for _, violation := range failure.GetFieldViolations() {
		e.Violations = append(e.Violations, FieldViolation{violation.GetField(), violation.GetDescription()})
	}
	if failure.RetryDelay != nil {
		delay := failure.GetRetryDelay().AsDuration().Truncate(time.Microsecond)
		e.RetryDelay = &delay
	}
	for _, cause := range failure.GetCauses() {
		e.Causes = append(e.Causes, FromFailure(cause))
	}
	e.complete()
	return e
}

// cut returns a text of at most limit bytes of UTF-8.
func cut(text string, limit int) string {
	text = valid(text)
	if len(text) <= limit {
		return text
	}
	end := limit - 3
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// valid returns a text that protobuf takes: bytes that are no UTF-8 become question marks.
func valid(text string) string { return strings.ToValidUTF8(text, "?") }

func sortedKeys(values map[string]string) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
