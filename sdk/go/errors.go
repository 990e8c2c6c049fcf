package archon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

// Reason is a constant in UPPER_SNAKE_CASE that names the cause of an error for programs. It is an error itself, so that
// errors.Is(err, archon.ReasonUnknownRole) asks for it.
type Reason string

// Error returns the name of the reason.
func (r Reason) Error() string { return string(r) }

// Code is a canonical gRPC code as an error: errors.Is(err, archon.ErrNotFound) asks for it.
type Code codes.Code

// Error returns the name of the code, such as NOT_FOUND.
func (c Code) Error() string { return CodeName(codes.Code(c)) }

// The canonical codes as errors.
const (
	ErrCancelled          = Code(codes.Canceled)
	ErrUnknown            = Code(codes.Unknown)
	ErrInvalidArgument    = Code(codes.InvalidArgument)
	ErrDeadlineExceeded   = Code(codes.DeadlineExceeded)
	ErrNotFound           = Code(codes.NotFound)
	ErrAlreadyExists      = Code(codes.AlreadyExists)
	ErrPermissionDenied   = Code(codes.PermissionDenied)
	ErrResourceExhausted  = Code(codes.ResourceExhausted)
	ErrFailedPrecondition = Code(codes.FailedPrecondition)
	ErrAborted            = Code(codes.Aborted)
	ErrOutOfRange         = Code(codes.OutOfRange)
	ErrUnimplemented      = Code(codes.Unimplemented)
	ErrInternal           = Code(codes.Internal)
	ErrUnavailable        = Code(codes.Unavailable)
	ErrDataLoss           = Code(codes.DataLoss)
	ErrUnauthenticated    = Code(codes.Unauthenticated)
)

// FailureClass is the kind of fault, from which a recovery is chosen.
type FailureClass int32

// The classes, with the numbers of the contract.
const (
	ClassUnspecified FailureClass = iota
	ClassModel
	ClassTool
	ClassPlanning
	ClassMemory
	ClassCollaboration
	ClassInfrastructure
	ClassInput
)

// Severity says how severe a failure is.
type Severity int32

// The severities, with the numbers of the contract.
const (
	SeverityUnspecified Severity = iota
	SeverityLow
	SeverityMedium
	SeverityHigh
	SeverityCritical
)

// Retry says whether a retry may succeed.
type Retry int32

// The advice, with the numbers of the contract.
const (
	RetryUnspecified Retry = iota
	RetryNever
	RetryLater
	RetryElsewhere
)

// String returns the name, such as NEVER.
func (r Retry) String() string {
	names := [...]string{"UNSPECIFIED", "NEVER", "LATER", "ELSEWHERE"}
	if r < 0 || int(r) >= len(names) {
		return names[0]
	}
	return names[r]
}

// FieldViolation is an invalid field of a request, and why.
type FieldViolation struct {
	Field       string
	Description string
}

// Error is every error that a member of the mesh raises on purpose. Message is one sentence for people, Reason is for
// programs, Metadata names the objects involved, RetryDelay is the time to wait before trying again (nil: no advice), and
// Causes are the errors that led to this one, outermost first.
//
// Kind names a row of the catalogue of failures, such as tool.timeout; Class, Severity and Retry follow from it unless
// the sender has set them.
type Error struct {
	Code       codes.Code
	Reason     Reason
	Message    string
	Kind       string
	Class      FailureClass
	Severity   Severity
	Retry      Retry
	RetryDelay *time.Duration
	Metadata   map[string]string
	Violations []FieldViolation
	Causes     []*Error
}

// ErrorOption sets a field of a new error.
type ErrorOption func(*Error)

// NewError returns an error with a reason of the contract, whose code, kind and advice follow from it. A reason that is not
// of the contract has the code UNKNOWN unless WithCode sets another.
func NewError(reason Reason, message string, options ...ErrorOption) *Error {
	e := &Error{Code: codes.Unknown, Reason: reason, Message: message}
	if entry, ok := reasonTable[reason]; ok {
		e.Code = entry.code
	}
	for _, option := range options {
		option(e)
	}
	e.complete()
	return e
}

// Errorf returns an error with a reason and a formatted message.
func Errorf(reason Reason, format string, arguments ...any) *Error {
	return NewError(reason, fmt.Sprintf(format, arguments...))
}

// WithCode sets the gRPC code.
func WithCode(code codes.Code) ErrorOption { return func(e *Error) { e.Code = code } }

// WithKind sets the kind.
func WithKind(kind string) ErrorOption { return func(e *Error) { e.Kind = kind } }

// WithRetryDelay sets the time to wait before trying again.
func WithRetryDelay(delay time.Duration) ErrorOption { return func(e *Error) { e.RetryDelay = &delay } }

// WithMetadata sets an entry of the metadata.
func WithMetadata(key, value string) ErrorOption {
	return func(e *Error) {
		if e.Metadata == nil {
			e.Metadata = map[string]string{}
		}
		e.Metadata[key] = value
	}
}

// WithViolation adds an invalid field.
func WithViolation(field, description string) ErrorOption {
	return func(e *Error) { e.Violations = append(e.Violations, FieldViolation{field, description}) }
}

// WithCause adds an error that led to this one.
func WithCause(cause *Error) ErrorOption {
	return func(e *Error) { e.Causes = append(e.Causes, cause) }
}

// Error returns the message.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return string(e.Reason)
}

// Is reports whether the error has a Reason or a Code; an error of the code CANCELLED is context.Canceled, too, and one of
// the code DEADLINE_EXCEEDED is context.DeadlineExceeded.
func (e *Error) Is(target error) bool {
	switch target := target.(type) {
	case Reason:
		return e.Reason == target
	case Code:
		return e.Code == codes.Code(target)
	}
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	return false
}

// Unwrap returns the causes.
func (e *Error) Unwrap() []error {
	causes := make([]error, len(e.Causes))
	for i, cause := range e.Causes {
		causes[i] = cause
	}
	return causes
}

// clone returns a copy whose maps and slices are its own.
func (e *Error) clone() *Error {
	other := *e
	other.Metadata = maps.Clone(e.Metadata)
	other.Violations = slices.Clone(e.Violations)
	other.Causes = slices.Clone(e.Causes)
	return &other
}

// complete fills in what follows from the reason, the code and the kind.
func (e *Error) complete() {
	if e.Reason == "" {
		e.Reason = reasonOfCode[e.Code]
	}
	kind := e.Kind
	entry, known := kindTable[kind]
	if !known {
		kind = defaultKind(e.Code, e.Reason)
		entry = kindTable[kind]
	}
	if e.Kind == "" {
		e.Kind = kind
	}
	if e.Class == ClassUnspecified {
		e.Class = entry.class
	}
	if e.Severity == SeverityUnspecified {
		e.Severity = entry.severity
	}
	if e.Retry == RetryUnspecified {
		e.Retry = entry.retry
		if e.RetryDelay != nil {
			e.Retry = RetryLater
		}
	}
}

// AsError returns the *Error in a chain of errors; nil if there is none.
func AsError(err error) *Error {
	var found *Error
	if errors.As(err, &found) {
		return found
	}
	return nil
}

type reasonEntry struct {
	number int32
	code   codes.Code
	kind   string
}

type kindEntry struct {
	class    FailureClass
	severity Severity
	retry    Retry
}

// defaultKind returns the kind of an error whose own kind is not known: that of its reason, or else of its code.
func defaultKind(code codes.Code, reason Reason) string {
	if entry, ok := reasonTable[reason]; ok {
		return entry.kind
	}
	if kind, ok := kindOfCode[code]; ok {
		return kind
	}
	return KindInfrastructureFault
}

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// CodeName returns the canonical name of a code, such as NOT_FOUND; UNKNOWN for a number that is none.
func CodeName(code codes.Code) string {
	if int(code) < len(codeNames) {
		return codeNames[code]
	}
	return "UNKNOWN"
}
