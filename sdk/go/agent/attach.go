package agent

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

const (
	attachTokenKey  = "archon-attach-token"
	attachFirst     = 100 * time.Millisecond // pause before the agent attaches again, growing to attachLongest
	attachLongest   = 5 * time.Second
	attachPatience  = 15 * time.Second // without Open on any stream, after which the agent dials anew
	attachWatchTime = time.Second
	attachEnd       = 3 * time.Second // that the orchestrator has to end the streams once they are half-closed
)

// attacher keeps one spare stream to an orchestrator: a stream that has had no Open yet. As soon as Open arrives on it, the
// next one is opened.
type attacher struct {
	server  *Server
	token   string
	ctx     context.Context //nolint:containedctx // of all streams
	cancel  context.CancelFunc
	done    chan struct{}
	streams sync.WaitGroup

	mu      sync.Mutex
	channel *archon.Channel
	heard   time.Time // when a session was opened or open the last time
	open    int
	closing bool
}

func newAttacher(server *Server) (*attacher, error) {
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		return nil, archon.ToError(err, "")
	}
	channel, err := archon.Connect(server.settings.Attach, archon.PeerOrchestrator, archon.WithOneReplica())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &attacher{
		server: server, token: base64.RawURLEncoding.EncodeToString(secret), ctx: ctx, cancel: cancel,
		done: make(chan struct{}), channel: channel, heard: time.Now(),
	}, nil
}

func (a *attacher) start() {
	go a.keep()
	a.streams.Add(1)
	go a.watch()
}

// stop ends all streams; sessions have been ended by their queues before.
func (a *attacher) stop() {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.streams.Wait()
	}()
	timer := time.AfterFunc(attachEnd+time.Second, a.cancel)
	<-a.done
	<-ended
	timer.Stop()
	a.cancel()
	_ = a.channel.Close()
}

// keep opens the next stream as soon as Open has arrived on the spare one, or after a pause if that broke.
func (a *attacher) keep() {
	defer close(a.done)
	pause := attachFirst
	for !a.isClosing() {
		opened := make(chan bool, 1)
		a.streams.Add(1)
		go func() {
			defer a.streams.Done()
			a.attachOnce(opened)
		}()
		if <-opened {
			pause = attachFirst
			continue
		}
		wait := time.NewTimer(time.Duration(float64(pause) * (0.5 + mathrand.Float64()/2)))
		select {
		case <-wait.C:
		case <-a.ctx.Done():
			wait.Stop()
			return
		}
		pause = min(2*pause, attachLongest)
	}
}

func (a *attacher) isClosing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closing || a.ctx.Err() != nil
}

// attachOnce serves one stream. It sends true to opened once Open has arrived, or false if the stream ends before.
func (a *attacher) attachOnce(opened chan<- bool) {
	ctx, cancel := context.WithCancel(archon.WithMeshID(metadata.AppendToOutgoingContext(a.ctx, attachTokenKey, a.token)))
	defer cancel()
	a.mu.Lock()
	channel := a.channel
	a.mu.Unlock()
	stream, err := agentv1.NewAttachServiceClient(channel).Attach(ctx, grpc.ForceCodecV2(frames.NewCodec()))
	if err != nil {
		slog.Info("could not attach, trying again", "orchestrator", a.server.settings.Attach, "error", err)
		opened <- false
		return
	}
	s := a.server
	s.mu.Lock()
	own := s.streamBegan(true)
	registration, _ := proto.Clone(s.registration).(*registryv1.Registration)
	own.put("", &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Ready{Ready: &agentv1.Ready{
		InstanceId: s.instanceID, Protocol: protocol, Features: frames.Features, Role: s.role,
		MaxTasks: int32(s.capacity()), MaxWaiting: int32(s.maxWaiting), MaxMessageBytes: frames.MaxCheckedBytes,
		Registration: registration,
	}}}, false)
	s.mu.Unlock()
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-own.opened:
			a.note(1)
			opened <- true
		case <-ctx.Done():
			opened <- false
		}
	}()
	wire := &attachedStream{ClientStream: stream}
	err = s.serveSession(ctx, wire, own)
	if err == nil {
		_ = stream.CloseSend() // of a drain: the orchestrator ends the stream, and deregisters the instance with the last one
		waitForEnd(wire, attachEnd)
	}
	cancel()
	<-told
	select {
	case <-own.opened:
		a.note(-1)
	default:
	}
	if failed := wire.failure(); failed != nil && !errors.Is(failed, archon.ErrCancelled) {
		slog.Info("the attached stream has ended, attaching again", "orchestrator", s.settings.Attach, "error", failed)
	}
}

// note counts the open sessions.
func (a *attacher) note(change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open += change
	a.heard = time.Now()
}

// watch dials anew if no stream has had Open for some time: the connection may lead to a replica that has no use for it.
func (a *attacher) watch() {
	defer a.streams.Done()
	ticker := time.NewTicker(attachWatchTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-a.ctx.Done():
			return
		}
		a.mu.Lock()
		if a.closing {
			a.mu.Unlock()
			return
		}
		if a.open == 0 && time.Since(a.heard) > attachPatience {
			a.heard = time.Now()
			if channel, err := archon.Connect(a.server.settings.Attach, archon.PeerOrchestrator, archon.WithOneReplica()); err == nil {
				old := a.channel
				a.channel = channel
				go func() { _ = old.Close() }()
			}
		}
		a.mu.Unlock()
	}
}

// attachedStream remembers the error that has ended the stream.
type attachedStream struct {
	grpc.ClientStream
	mu    sync.Mutex
	err   error
	ended bool
}

// RecvMsg receives a message.
func (s *attachedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err != nil {
		s.mu.Lock()
		s.ended = true
		if !errors.Is(err, io.EOF) {
			s.err = err
		}
		s.mu.Unlock()
	}
	return err
}

func (s *attachedStream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *attachedStream) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// waitForEnd waits until the other side has ended the stream: the reader of the session notices that.
func waitForEnd(stream *attachedStream, limit time.Duration) {
	for end := time.Now().Add(limit); !stream.hasEnded() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}
