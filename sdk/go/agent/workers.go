package agent

import (
	"sync"
	"time"
)

// workerIdle is how long a goroutine waits for a further handler to run.
const workerIdle = 2 * time.Second

// workers runs handlers in goroutines that are reused for a while: the stack of a new one grows step by step, which costs as
// much as a small task. There are as many as handlers run at a time.
type workers struct {
	jobs    chan func()
	stop    chan struct{}
	running sync.WaitGroup
}

func newWorkers() *workers { return &workers{jobs: make(chan func()), stop: make(chan struct{})} }

// run runs a job in a goroutine that waits for one, or in a new one. It never blocks.
func (w *workers) run(job func()) {
	select {
	case w.jobs <- job:
	default:
		w.running.Add(1)
		go w.work(job)
	}
}

func (w *workers) work(job func()) {
	defer w.running.Done()
	timer := time.NewTimer(workerIdle)
	defer timer.Stop()
	for {
		job()
		timer.Reset(workerIdle)
		select {
		case job = <-w.jobs:
		case <-timer.C:
			return
		case <-w.stop:
			return
		}
	}
}

// close ends the goroutines that wait; those with a job end after it.
func (w *workers) close() { close(w.stop) }
