package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
)

const (
	maxTries   = 4               // how often a call is sent, renewals and other instances included
	renewEarly = 5 * time.Second // before its end, a lease is replaced before a call
)

// Leased is a tool of another agent: leased when it is called, renewed when its lease has expired, and moved to another
// instance when its owner is gone, but never so that a call may act twice. It is safe for concurrent use.
type Leased struct {
	client   *Client
	name     string
	task     *commonv1.TaskRef
	duration time.Duration

	mu       sync.Mutex
	role     string
	held     *held
	released bool
}

type held struct {
	found Found
	id    string
	ends  time.Time
}

// CallOptions are the options of a call: its time (0: 30 seconds), a key by which a repeated call of the same task has the
// same result as long as the owner runs, and a function that gets its progress.
type CallOptions struct {
	Timeout        time.Duration
	IdempotencyKey string
	Progress       func(text string)
}

// Execute executes a call, with all that it takes to lease the tool. arguments is a JSON object. A failure of the tool itself
// is a result.
//
// Another instance gets the call only if the one before has certainly not begun it, or if the tool is idempotent. It fails
// with NOT_FOUND if no instance shares the tool, INVALID_ARGUMENT if the arguments do not match its schema,
// REQUEST_ID_REUSED, RESOURCE_EXHAUSTED with a delay, LEASE_EXPIRED if the owner has revoked the lease, UNAVAILABLE, and
// DEADLINE_EXCEEDED.
func (l *Leased) Execute(ctx context.Context, arguments any, options CallOptions) (Result, error) {
	began := time.Now()
	result, err := l.execute(ctx, arguments, options, began)
	outcome := string(result.Status)
	if err != nil {
		outcome = "failed"
	}
	slog.Info("tool", "event", "call", "tool", l.name, "outcome", outcome, "seconds", time.Since(began).Seconds(), "error", err)
	return result, err
}

func (l *Leased) execute(ctx context.Context, arguments any, options CallOptions, began time.Time) (Result, error) {
	text, err := encodeArguments(arguments)
	if err != nil {
		return Result{}, err
	}
	if options.Timeout == 0 {
		options.Timeout = CallTimeout
	}
	if options.Timeout < 0 {
		return Result{}, archon.NewError(archon.ReasonInvalidArgument, "the timeout of a call must be above 0 s")
	}
	deadline := began.Add(options.Timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(2*revokeTimeout)) // the owner ends it earlier, if it is there
	defer cancel()
	avoided := map[string]bool{}
	for try := 1; ; try++ {
		lease, err := l.lease(ctx, deadline, avoided)
		if err != nil {
			return Result{}, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return Result{}, l.late()
		}
		to, err := l.client.peer(lease.found)
		if err != nil {
			return Result{}, err
		}
		result, err := to.execute(ctx, &toolv1.ExecuteToolRequest{
			LeaseId: lease.id, ArgumentsJson: text, Timeout: durationpb.New(left), IdempotencyKey: clean(options.IdempotencyKey),
		}, left, options.Progress)
		if err == nil {
			return result, nil
		}
		failed := archon.ToError(err, "")
		switch {
		case failed.Is(archon.ReasonLeaseExpired) && notBegun(failed):
			l.drop(lease)
		case failed.Is(archon.ErrUnavailable), failed.Is(archon.ErrNotFound), failed.Is(archon.ErrUnknown):
			l.drop(lease)
			avoided[lease.found.InstanceID] = true
			if !notBegun(failed) && !lease.found.Tool.Idempotent {
				return Result{}, failed
			}
		case failed.Is(archon.ErrDeadlineExceeded):
			return Result{}, l.late()
		default:
			return Result{}, failed
		}
		if try == maxTries {
			return Result{}, failed
		}
	}
}

// Release ends the lease, within two seconds; if the owner is not reachable, it expires. Idempotent.
func (l *Leased) Release() {
	l.mu.Lock()
	lease := l.held
	l.held, l.released = nil, true
	l.mu.Unlock()
	if lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), revokeTimeout)
	defer cancel()
	to, err := l.client.peer(lease.found)
	if err == nil {
		_, err = to.stub.RevokeLease(ctx, &toolv1.RevokeLeaseRequest{LeaseId: lease.id})
	}
	if err != nil {
		slog.Debug("a lease was not released", "tool", l.name, "error", err)
	}
}

// lease returns the lease that is held, or a new one at the best instance that is not avoided.
func (l *Leased) lease(ctx context.Context, deadline time.Time, avoided map[string]bool) (*held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, archon.NewError(archon.ReasonFailedPrecondition, "the lease of tool "+l.name+" was released")
	}
	before := l.held
	if before != nil && time.Until(before.ends) > min(renewEarly, l.duration/2) {
		return before, nil
	}
	l.held = nil
	owners, err := l.owners(ctx, avoided, before)
	if err != nil {
		return nil, err
	}
	var last error
	for _, found := range owners {
		if time.Until(deadline) <= 0 {
			return nil, l.late()
		}
		to, err := l.client.peer(found)
		if err == nil {
			var id string
			if id, err = to.lease(ctx, l.name, l.task, l.client.instanceID, l.duration); err == nil {
				l.role = found.Role // another role's tool of this name may do another thing
				l.held = &held{found, id, time.Now().Add(l.duration)}
				return l.held, nil
			}
		}
		if !gone(err) || ctx.Err() != nil {
			return nil, err
		}
		last = err
		avoided[found.InstanceID] = true
	}
	if last != nil {
		return nil, last
	}
	whose := ""
	if l.role != "" {
		whose = " of role " + l.role
	}
	if len(avoided) > 0 {
		return nil, networkError("no other instance" + whose + " shares tool '" + l.name + "'")
	}
	return nil, archon.NewError(archon.ReasonNotFound, "no live instance"+whose+" shares a tool '"+l.name+"'",
		archon.WithMetadata("tool", l.name))
}

// gone reports whether another instance is asked after an error of LeaseTool.
func gone(err error) bool {
	for _, code := range []archon.Code{
		archon.ErrUnavailable, archon.ErrDeadlineExceeded, archon.ErrUnimplemented, archon.ErrNotFound,
		archon.ErrResourceExhausted, archon.ErrUnknown,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// owners returns the instances to ask for a lease: of the first role that has the tool, unless a role is named.
func (l *Leased) owners(ctx context.Context, avoided map[string]bool, before *held) ([]Found, error) {
	query := Query{Name: l.name, Role: l.role, Fresh: len(avoided) > 0}
	found, err := l.client.Find(ctx, query)
	if err == nil && len(found) == 0 && !query.Fresh {
		query.Fresh = true
		found, err = l.client.Find(ctx, query)
	}
	if err != nil {
		return nil, err
	}
	var owners []Found
	for _, each := range found {
		if !avoided[each.InstanceID] && each.Address != "" && (len(owners) == 0 || each.Role == owners[0].Role) {
			owners = append(owners, each)
		}
	}
	if l.task != nil && len(owners) > 0 && !owners[0].Tool.Idempotent {
		// Each attempt asks the same instance first, which knows what an earlier one has done.
		sort.SliceStable(owners, func(i, j int) bool {
			a := sha256.Sum256([]byte(l.task.GetTaskId() + ":" + owners[i].InstanceID))
			b := sha256.Sum256([]byte(l.task.GetTaskId() + ":" + owners[j].InstanceID))
			return bytes.Compare(a[:], b[:]) < 0
		})
	}
	if before != nil { // its result of an earlier call with the same key is there
		sort.SliceStable(owners, func(i, j int) bool {
			return owners[i].InstanceID == before.found.InstanceID && owners[j].InstanceID != before.found.InstanceID
		})
	}
	return owners, nil
}

func (l *Leased) drop(lease *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == lease {
		l.held = nil
	}
}

func (l *Leased) late() error {
	return archon.NewError(archon.ReasonDeadlineExceeded, "no answer of tool "+l.name+" in time",
		archon.WithKind(archon.KindToolTimeout))
}

// notBegun reports whether a call that ended with an error was certainly not begun by its owner (contract rule 14).
func notBegun(err *archon.Error) bool {
	if err.Metadata["begun"] == "true" {
		return false
	}
	if err.Is(archon.ErrNotFound) || err.Is(archon.ErrResourceExhausted) || err.Is(archon.ErrInvalidArgument) {
		return true
	}
	if !err.Is(archon.ErrUnavailable) {
		return false
	}
	// gRPC's text of a call that no connection took: the owner has not seen it.
	return err.Metadata["begun"] == "false" || strings.Contains(err.Message, "connection error: desc = \"transport: Error while dialing")
}

// encodeArguments returns arguments as JSON.
func encodeArguments(arguments any) (string, error) {
	if arguments == nil {
		return "{}", nil
	}
	part, err := archon.JSONPart(arguments)
	if err != nil {
		return "", err
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(part.DataJSON), &object) != nil || object == nil {
		return "", archon.NewError(archon.ReasonInvalidArgument, "the arguments are no JSON object")
	}
	if len(part.DataJSON) > MaxArgumentsBytes {
		return "", archon.NewError(archon.ReasonInvalidArgument,
			"the arguments have more than "+strconv.Itoa(MaxArgumentsBytes)+" bytes")
	}
	return clean(part.DataJSON), nil
}
