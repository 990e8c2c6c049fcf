//go:build unix

package security

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// FaultOf returns why another user could change a file or a folder; empty if none could but root.
func FaultOf(path string) (string, error) {
	for _, stat := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if err != nil {
			return "", err
		}
		entry, ok := info.Sys().(*syscall.Stat_t)
		if ok && entry.Uid != 0 && int(entry.Uid) != os.Geteuid() {
			return "it belongs to user " + strconv.Itoa(int(entry.Uid)), nil
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "other users can write to it (chmod go-w " + path + ")", nil
	}
	return "", nil
}

// holder returns the id of the process that holds the lock on a file; 0 if it is free, -1 if the id is not written yet.
func holder(path string) int {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0
	}
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid == 0 {
		return -1
	}
	return pid
}

// inode returns the number of a file, by which one that was replaced is told from the one before.
func inode(info os.FileInfo) uint64 {
	if entry, ok := info.Sys().(*syscall.Stat_t); ok {
		return entry.Ino
	}
	return 0
}
