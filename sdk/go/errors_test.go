package archon_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

func TestEveryReasonRoundTripsInBothForms(t *testing.T) {
	for number, name := range commonv1.ErrorReason_name {
		if number == 0 {
			continue
		}
		reason := archon.Reason(strings.TrimPrefix(name, "ERROR_REASON_"))
		given := archon.NewError(reason, "one sentence", archon.WithMetadata("key", "value"),
			archon.WithRetryDelay(1500*time.Millisecond), archon.WithViolation("goal", "is empty"))
		for form, got := range map[string]*archon.Error{
			"failure": archon.FromFailure(given.ToFailure()), "status": archon.FromStatus(given.GRPCStatus()),
		} {
			if fmt.Sprintf("%+v", *got) == "" || got.Code != given.Code || got.Reason != reason || got.Message != given.Message ||
				got.Kind != given.Kind || got.Class != given.Class || got.Severity != given.Severity || got.Retry != given.Retry ||
				*got.RetryDelay != *given.RetryDelay || got.Metadata["key"] != "value" || len(got.Violations) != 1 {
				t.Errorf("%s as %s: %+v", reason, form, got)
			}
		}
		if given.Code == codes.Unknown && reason != archon.ReasonUnknown {
			t.Errorf("%s has no code", reason)
		}
	}
}

func TestAReasonThatIsNotOfTheContractRoundTrips(t *testing.T) {
	given := archon.NewError("TOOL_TIMEOUT", "too slow", archon.WithKind(archon.KindToolTimeout))
	failure := given.ToFailure()
	if failure.GetReason() != 0 {
		t.Fatalf("the failure is %v", failure)
	}
	if got := archon.FromFailure(failure); got.Reason != "TOOL_TIMEOUT" || got.Retry != archon.RetryLater {
		t.Fatalf("the error is %+v", got)
	}
}

func TestUnknownValuesOfEnumsReadAsUnset(t *testing.T) {
	got := archon.FromFailure(&commonv1.Failure{Code: 99, Reason: 9999, Retry: 99, Severity: 99, FailureClass: 99, Message: "m"})
	if got.Code != codes.Unknown || got.Reason != archon.ReasonUnknown || got.Kind != archon.KindInfrastructureFault ||
		got.Retry != archon.RetryNever {
		t.Fatalf("the error is %+v", got)
	}
}

func TestErrorsAreAskedForByReasonCodeAndContext(t *testing.T) {
	err := fmt.Errorf("submit: %w", archon.NewError(archon.ReasonDelegationTimeout, "late"))
	for _, target := range []error{archon.ReasonDelegationTimeout, archon.ErrDeadlineExceeded, context.DeadlineExceeded} {
		if !errors.Is(err, target) {
			t.Errorf("it is not %v", target)
		}
	}
	if errors.Is(err, archon.ErrNotFound) || errors.Is(err, context.Canceled) {
		t.Error("it is everything")
	}
	if archon.AsError(err).Kind != archon.KindInputTimeout {
		t.Error("it has no kind")
	}
}

func TestTheDetailsOfAStatusStayBelowFourKilobytes(t *testing.T) {
	options := []archon.ErrorOption{}
	for i := range 50 {
		options = append(options, archon.WithMetadata(fmt.Sprint(i), strings.Repeat("x", 1000)),
			archon.WithViolation(strings.Repeat("f", 500), strings.Repeat("grüße", 500)))
	}
	st := archon.NewError(archon.ReasonInvalidArgument, strings.Repeat("é", 5000), options...).GRPCStatus()
	if size := proto.Size(st.Proto()); size > 4096 {
		t.Fatalf("the status has %d bytes", size)
	}
	if got := archon.FromStatus(st); got.Reason != archon.ReasonInvalidArgument {
		t.Fatalf("the error is %+v", got)
	}
}

func TestTheTextOfAnUnexpectedErrorStaysInTheLog(t *testing.T) {
	got := archon.ToError(errors.New("password=secret"), "")
	if !errors.Is(got, archon.ErrInternal) || strings.Contains(got.Error(), "secret") {
		t.Fatalf("the error is %v", got)
	}
	if got := archon.ToError(context.Canceled, ""); !errors.Is(got, archon.ErrCancelled) {
		t.Fatalf("the error is %v", got)
	}
}

func TestAMessageAboveTheLimitOfGRPCIsTyped(t *testing.T) {
	got := archon.FromStatus(status.New(codes.ResourceExhausted, "grpc: received message larger than max (20 vs. 10)"))
	if !errors.Is(got, archon.ReasonMessageTooLarge) {
		t.Fatalf("the error is %+v", got)
	}
}
