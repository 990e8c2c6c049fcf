package frames

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that this one stands before
	"google.golang.org/grpc/mem"
)

// Raw is a message of a session as bytes: our own code decodes it, so that a malformed frame is a typed answer and not the
// end of the stream.
type Raw struct{ Bytes []byte }

// Codec passes Raw messages through, and encodes all others as gRPC does.
type Codec struct{ inner encoding.CodecV2 }

// NewCodec returns the codec.
func NewCodec() *Codec { return &Codec{encoding.GetCodecV2("proto")} }

// Name returns the content subtype.
func (c *Codec) Name() string { return "proto" }

// Marshal returns the bytes of a message.
func (c *Codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.(*Raw); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw.Bytes)}, nil
	}
	return c.inner.Marshal(v)
}

// Unmarshal fills a message from bytes.
func (c *Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*Raw); ok {
		raw.Bytes = data.Materialize()
		return nil
	}
	if err := c.inner.Unmarshal(data, v); err != nil {
		return fmt.Errorf("malformed message: %w", err)
	}
	return nil
}
