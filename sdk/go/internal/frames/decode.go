package frames

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

var errDecode = errors.New("the bytes are not a message of the contract")

// Split calls yield for each frame of a raw message (field 1, repeated), so that a frame that cannot be decoded does not
// affect its neighbours. It returns an error if the bytes are no message at all.
func Split(message []byte, yield func(raw []byte) bool) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errDecode
		}
		message = message[n:]
		if kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return errDecode
			}
			if number == 1 && !yield(value) {
				return nil
			}
			message = message[n:]
			continue
		}
		if kind == protowire.StartGroupType || kind == protowire.EndGroupType {
			return errDecode
		}
		n = protowire.ConsumeFieldValue(number, kind, message)
		if n < 0 {
			return errDecode
		}
		message = message[n:]
	}
	return nil
}

// HasTooMany reports whether a message has more than MaxFrames frames, without decoding them.
func HasTooMany(message []byte) bool {
	if len(message) <= 2*MaxFrames { // a frame takes two bytes at least
		return false
	}
	count := 0
	err := Split(message, func([]byte) bool {
		count++
		return count <= MaxFrames
	})
	return err == nil && count > MaxFrames
}

// TaskOf returns the task of a frame that cannot be decoded; nil if not even that can be read.
func TaskOf(raw []byte) *commonv1.TaskRef {
	var ref *commonv1.TaskRef
	_ = Split(raw, func(part []byte) bool {
		candidate := &commonv1.TaskRef{}
		if proto.Unmarshal(part, candidate) == nil {
			ref = candidate
		}
		return false
	})
	return ref
}
