package security

import (
	"os"
	"time"
)

// interval is the time between two looks at a file: its content was renewed if its stamp has changed.
const interval = time.Second

// maxBytes is the most that a file of certificates or keys may have.
const maxBytes = 1 << 20

type stamp struct {
	time  int64
	size  int64
	inode uint64
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime().UnixNano(), info.Size(), inode(info)}, nil
}
