package frames

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// Frame is a serialised frame: Head and Content together are the field frames (1, repeated) of a message of a session.
// TaskID is empty for a frame about the session itself.
type Frame struct {
	TaskID  string
	Head    []byte
	Content []byte
	// Droppable frames (progress, echoes) may be left out if the peer does not keep up.
	Droppable bool
}

// Size returns the bytes that the frame takes in a message.
func (f Frame) Size() int { return len(f.Head) + len(f.Content) }

// Verdict is the action for a received frame.
type Verdict int

// What to do with a frame: apply it, drop it as a copy, or ask for those before it.
const (
	Apply Verdict = iota
	Duplicate
	Gap
)

type unacked struct {
	sequence int64
	content  []byte
}

// Channel is both directions of one (task, attempt), seen from one end. It is not safe for concurrent use.
type Channel struct {
	Ref      *commonv1.TaskRef
	Received int64 // the last sequence that was taken
	AckOwed  bool  // whether a sequence was taken and no frame has left since
	// PendingBytes are the bytes of content that are kept until they are acknowledged.
	PendingBytes int

	sent     int64
	unacked  []unacked
	refBytes []byte
	refEpoch int64
}

// NewChannel returns the channel of an attempt.
func NewChannel(ref *commonv1.TaskRef) *Channel {
	own, _ := proto.Clone(ref).(*commonv1.TaskRef)
	return &Channel{Ref: own, refEpoch: own.GetEpoch() - 1}
}

// Stamp returns a frame under the current reference and ack. content is the bytes of its oneof. A sequenced frame gets the
// next sequence and is kept until it is acknowledged.
func (c *Channel) Stamp(content []byte, sequenced bool) Frame {
	var sequence int64
	if sequenced {
		c.sent++
		sequence = c.sent
		c.unacked = append(c.unacked, unacked{sequence, content})
		c.PendingBytes += len(content)
	}
	c.AckOwed = false
	return c.frame(sequence, content)
}

// CheckSize returns FRAME_TOO_LARGE if the peer would not take a frame with this content.
func (c *Channel) CheckSize(content []byte, limit int) error {
	size := len(c.taskBytes()) + len(content)
	if size+maxFrameOverhead <= limit {
		return nil
	}
	return archon.NewError(archon.ReasonFrameTooLarge,
		"a frame of "+strconv.Itoa(size)+" bytes is larger than the "+strconv.Itoa(limit)+
			" that the peer takes; pass large content by URL",
		archon.WithMetadata("size", strconv.Itoa(size)), archon.WithMetadata("limit", strconv.Itoa(limit)),
		archon.WithMetadata("task_id", c.Ref.GetTaskId()))
}

// Take judges the sequence of an incoming frame; a frame to be applied counts as received.
func (c *Channel) Take(sequence int64) Verdict {
	if sequence > c.Received+1 {
		return Gap
	}
	c.AckOwed = true
	if sequence <= c.Received {
		return Duplicate
	}
	c.Received = sequence
	return Apply
}

// Acked forgets the frames up to a sequence: the peer has applied them.
func (c *Channel) Acked(sequence int64) {
	done := 0
	for done < len(c.unacked) && c.unacked[done].sequence <= sequence {
		c.PendingBytes -= len(c.unacked[done].content)
		c.unacked[done].content = nil
		done++
	}
	c.unacked = c.unacked[done:]
}

// HasUnacked reports whether the peer has not acknowledged every sequenced frame.
func (c *Channel) HasUnacked() bool { return len(c.unacked) > 0 }

// Unacked returns the frames to send again, in order, with the ack and the epoch as of now.
func (c *Channel) Unacked() []Frame {
	again := make([]Frame, len(c.unacked))
	for i, each := range c.unacked {
		again[i] = c.frame(each.sequence, each.content)
	}
	return again
}

func (c *Channel) frame(sequence int64, content []byte) Frame {
	task := c.taskBytes()
	size := len(task) + len(content)
	if sequence > 0 {
		size += 1 + protowire.SizeVarint(uint64(sequence))
	}
	if c.Received > 0 {
		size += 1 + protowire.SizeVarint(uint64(c.Received))
	}
	head := make([]byte, 0, 1+protowire.SizeVarint(uint64(size))+size-len(content))
	head = append(head, 0x0a)
	head = protowire.AppendVarint(head, uint64(size))
	head = append(head, task...)
	if sequence > 0 {
		head = append(head, 0x10)
		head = protowire.AppendVarint(head, uint64(sequence))
	}
	if c.Received > 0 {
		head = append(head, 0x18)
		head = protowire.AppendVarint(head, uint64(c.Received))
	}
	return Frame{TaskID: c.Ref.GetTaskId(), Head: head, Content: content}
}

// taskBytes returns the field task (1); of the reference only the epoch changes.
func (c *Channel) taskBytes() []byte {
	if epoch := c.Ref.GetEpoch(); epoch != c.refEpoch || c.refBytes == nil {
		ref, _ := proto.Marshal(c.Ref) // decoded before, so that it can be encoded
		c.refEpoch = epoch
		c.refBytes = append([]byte{0x0a}, protowire.AppendVarint(nil, uint64(len(ref)))...)
		c.refBytes = append(c.refBytes, ref...)
	}
	return c.refBytes
}

// Encode serialises a frame that no channel stamps: about the session, or about a task without a sequence of its own.
func Encode(taskID string, frame proto.Message) (Frame, error) {
	data, err := proto.Marshal(frame)
	if err != nil {
		return Frame{}, archon.NewError(archon.ReasonInvalidArgument, "the frame cannot be encoded: "+err.Error())
	}
	head := protowire.AppendVarint([]byte{0x0a}, uint64(len(data)))
	return Frame{TaskID: taskID, Head: head, Content: data}, nil
}

// Content returns the bytes of a oneof: the field number of the arm, and the message.
func Content(field protowire.Number, message proto.Message) ([]byte, error) {
	size := proto.Size(message)
	data := make([]byte, 0, protowire.SizeTag(field)+protowire.SizeBytes(size))
	data = protowire.AppendTag(data, field, protowire.BytesType)
	data = protowire.AppendVarint(data, uint64(size))
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(data, message)
	if err != nil {
		return nil, archon.NewError(archon.ReasonInvalidArgument, "the content cannot be encoded: "+err.Error())
	}
	return data, nil
}
