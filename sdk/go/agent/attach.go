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
	"github.com/archon-mesh/archon/sdk/go/registry"
)

const (
	attachTokenKey  = "archon-attach-token"
	attachFirst     = 100 * time.Millisecond // pause before the agent attaches again, growing to attachLongest
	attachLongest   = 5 * time.Second
	attachPatience  = 15 * time.Second // without Open on any stream, after which the agent dials anew
	attachStart     = 10 * time.Second // that Start waits for an orchestrator before it continues in the background
	attachAccept    = 20 * time.Second // that an orchestrator has to register the agent
	attachWatchTime = time.Second
	attachEnd       = 3 * time.Second // that the orchestrator has to end the streams once they are half-closed
)

// attacher keeps one spare stream to an orchestrator: a stream that has had no Open yet. As soon as Open arrives on it, the
// next one is opened.
type attacher struct {
	server  *Server
	target  string // host:port of the orchestrator
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
	joined  bool          // whether an orchestrator has registered the agent
	last    *archon.Error // why the agent is not attached; nil if it is
	news    chan struct{} // closed at each answer
}

func newAttacher(server *Server, target string) (*attacher, error) {
	if len(server.tools.Advertised()) > 0 {
		return nil, archon.NewError(archon.ReasonFailedPrecondition,
			"an attached agent cannot lend tools: other agents cannot dial it")
	}
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		return nil, archon.ToError(err, "")
	}
	channel, err := archon.Connect(target, archon.PeerOrchestrator, archon.WithOneReplica())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &attacher{
		server: server, target: target, token: base64.RawURLEncoding.EncodeToString(secret), ctx: ctx, cancel: cancel,
		done: make(chan struct{}), channel: channel, heard: time.Now(),
		news: make(chan struct{}),
	}, nil
}

// start attaches in the background, and waits for an orchestrator. It fails with an error with which that refuses the agent
// for good, such as PERMISSION_DENIED.
func (a *attacher) start(ctx context.Context) error {
	go a.keep()
	a.streams.Add(1)
	go a.watch()
	timer := time.NewTimer(attachStart)
	defer timer.Stop()
	for {
		a.mu.Lock()
		joined, last, news := a.joined, a.last, a.news
		a.mu.Unlock()
		if joined {
			return nil
		}
		if last != nil && !registry.IsTransient(last) {
			return last
		}
		select {
		case <-news:
		case <-timer.C:
			slog.Warn("not attached yet, trying again", "orchestrator", a.target, "error", last)
			return nil
		case <-ctx.Done():
			return archon.ToError(ctx.Err(), "")
		}
	}
}

// answered notes that an orchestrator has registered the agent, or why it is not attached, which is logged once.
func (a *attacher) answered(failed *archon.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed != nil && !a.closing && (a.last == nil || a.last.Error() != failed.Error()) {
		level := slog.LevelInfo
		if !registry.IsTransient(failed) {
			level = slog.LevelWarn
		}
		slog.Log(a.ctx, level, "not attached, trying again", "orchestrator", a.target, "error", failed)
	}
	if failed == nil && a.last != nil {
		slog.Info("attached", "orchestrator", a.target)
	}
	a.joined = a.joined || failed == nil
	a.last = failed
	close(a.news)
	a.news = make(chan struct{})
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
		a.answered(archon.ToError(err, ""))
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
	if err = a.accept(stream, own, cancel); err == nil {
		err = s.serveSession(ctx, wire, own)
	} else {
		wire.err = err
		s.streamEnded(own)
	}
	if err != nil && wire.failure() == nil && !own.isStuck() { // a client cannot end a stream with an error
		frame := &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Failure{Failure: archon.ToError(err, "").ToFailure()}}
		_ = stream.SendMsg(&agentv1.AttachRequest{Frames: []*agentv1.AgentFrame{frame}})
	}
	if wire.failure() == nil {
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
		a.answered(archon.ToError(failed, ""))
	}
}

// accept sends the registration, and waits until the orchestrator has registered the agent.
func (a *attacher) accept(stream grpc.ClientStream, own *session, cancel context.CancelFunc) error {
	if err := stream.SendMsg(&frames.Raw{Bytes: own.queue.Batch(a.ctx.Done())}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	late := time.AfterFunc(attachAccept, cancel)
	header, err := stream.Header()
	if !late.Stop() {
		return archon.NewError(archon.ReasonUnavailable, "the orchestrator did not answer in time")
	}
	if err == nil && header == nil { // the stream has ended without a header
		err = stream.RecvMsg(&frames.Raw{})
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = archon.NewError(archon.ReasonUnavailable, "the orchestrator has ended the stream")
		}
		return archon.ToError(err, "")
	}
	a.answered(nil)
	return nil
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
			if channel, err := archon.Connect(a.target, archon.PeerOrchestrator, archon.WithOneReplica()); err == nil {
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
