package stack

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

// worker keeps one worker program running. It restarts the program whenever it ends,
// after a pause that grows from 100 ms to 5 s while the program ends within 10 s.
type worker struct {
	stack    *Stack
	command  string
	stopping chan struct{}
	stopped  chan struct{}
	stopOnce sync.Once
}

func (s *Stack) superviseWorker(command string) *worker {
	w := &worker{stack: s, command: command, stopping: make(chan struct{}), stopped: make(chan struct{})}
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.stopped)
	pause := 100 * time.Millisecond
	for {
		started := time.Now()
		p, err := w.start()
		if err != nil {
			fmt.Fprintf(w.stack.log, "worker %q: %v\n", w.command, err)
		} else {
			select {
			case <-w.stopping:
				p.Stop(workerStopTimeout)
				return
			case <-p.Done():
				fmt.Fprintf(w.stack.log, "worker %q has ended: %v\n", w.command, cmp.Or(p.Err(), errCleanExit))
			}
		}
		if time.Since(started) > 10*time.Second {
			pause = 100 * time.Millisecond
		}
		select {
		case <-w.stopping:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Second)
	}
}

func (w *worker) start() (*process.Process, error) {
	cmd := exec.Command("/bin/sh", "-c", "exec "+w.command)
	cmd.Env = append(os.Environ(), w.stack.workerEnv()...)
	cmd.Stdout, cmd.Stderr = w.stack.log, w.stack.log
	return process.Start(cmd)
}

func (w *worker) stop() {
	w.stopOnce.Do(func() { close(w.stopping) })
	<-w.stopped
}
