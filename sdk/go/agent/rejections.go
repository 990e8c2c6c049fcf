package agent

import (
	"strconv"
	"time"
	utf8lib "unicode/utf8"

	"google.golang.org/grpc/codes"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// maxID is the most characters of an orchestrator's id, a run id or a task id: an id is kept for long, and sent back with
// each error.
const maxID = 256

// streamError ends the whole stream; other errors refuse one frame.
type streamError struct{ cause *archon.Error }

func (e *streamError) Error() string { return e.cause.Error() }

func (e *streamError) Unwrap() error { return e.cause }

func checkRef(ref *commonv1.TaskRef) error {
	for field, text := range map[string]string{"task.task_id": ref.GetTaskId(), "task.run_id": ref.GetRunId()} {
		if n := utf8lib.RuneCountInString(text); n < 1 || n > maxID {
			return invalid(field, "must be 1 to "+strconv.Itoa(maxID)+" characters")
		}
	}
	return nil
}

func notYours(ref *commonv1.TaskRef) error {
	return archon.NewError(archon.ReasonPermissionDenied,
		"task "+ref.GetTaskId()+" was assigned by another orchestrator, or belongs to another run",
		archon.WithMetadata("task_id", ref.GetTaskId()))
}

func invalid(field, description string) error {
	return archon.NewError(archon.ReasonInvalidArgument, field+": "+description, archon.WithViolation(field, description))
}

func unknownFrame() error {
	return archon.NewError(archon.ReasonUnknownFrame, "unknown frame of a newer version")
}

func sequenceGap(got, expected int64) error {
	return archon.NewError(archon.ReasonSequenceGap,
		"sequence gap: got "+strconv.FormatInt(got, 10)+", expected "+strconv.FormatInt(expected, 10),
		archon.WithMetadata("expected", strconv.FormatInt(expected, 10)))
}

func staleEpoch(ref *commonv1.TaskRef, highest int64) error {
	return archon.NewError(archon.ReasonStaleEpoch,
		"epoch "+strconv.FormatInt(ref.GetEpoch(), 10)+" of run "+ref.GetRunId()+" is over; its owner has epoch "+
			strconv.FormatInt(highest, 10),
		archon.WithMetadata("run_id", ref.GetRunId()), archon.WithMetadata("epoch", strconv.FormatInt(highest, 10)))
}

func replaced(orchestratorID string) *archon.Error {
	return archon.NewError(archon.ReasonSessionReplaced, "a newer stream of the same orchestrator took over",
		archon.WithMetadata("id", orchestratorID))
}

func draining() *archon.Error {
	return archon.NewError(archon.ReasonDraining, "this instance is draining")
}

func noCapacity() *archon.Error {
	return archon.NewError(archon.ReasonNoCapacity, "this instance has no free slot",
		archon.WithRetryDelay(200*time.Millisecond))
}

func exhausted(message string) *streamError {
	return &streamError{archon.NewError(archon.ReasonResourceExhausted, message, archon.WithRetryDelay(time.Second))}
}

func unsupported(feature string) error {
	return archon.NewError(archon.ReasonNotServed, "the caller of this task does not support the feature "+feature,
		archon.WithCode(codes.Unimplemented))
}

func shortened(text string) string {
	if utf8lib.RuneCountInString(text) <= maxTurnChars {
		return text
	}
	runes := []rune(text)
	half := maxTurnChars / 2
	return string(runes[:half]) + "\n[... " + strconv.Itoa(len(runes)-2*half) + " characters left out ...]\n" +
		string(runes[len(runes)-half:])
}
