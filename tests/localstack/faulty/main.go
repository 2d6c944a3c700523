// Command faulty is a worker function that fails as it is told. It asks a server of
// the test's what to do, when it starts and for each job.
package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/workerhost"
	"github.com/lockstep-run/lockstep/shared/worker"
)

// What it may be told.
const (
	commandWork       = "work"
	commandCrash      = "crash"   // one of its goroutines panics, which ends the process
	commandFreeze     = "freeze"  // it stands still until Lambda ends it at its time-out
	commandDoNotStart = "missing" // it does not even start
)

func main() {
	name := os.Getenv("POOL")
	if order, err := fetchCommand(context.Background(), name); err != nil || order == commandDoNotStart {
		boot.Fatal(name, errors.Join(errors.New("told not to start"), err))
	}
	workerhost.Serve(name, func(w *worker.Worker) {
		worker.Register(w, worker.Block[struct{}, string]{
			Name: name + "/act", Version: "1.0.0", RunOn: "device", Idempotent: true,
			Execute: func(ctx context.Context, job *worker.Job, _ struct{}) (string, error) {
				order, err := fetchCommand(ctx, name+"/"+job.Entity.ID+"/"+job.Fence)
				if err != nil {
					return "", err
				}
				switch order {
				case commandCrash:
					fallen := make(chan struct{})
					go func() { panic("told to") }() // nobody recovers in a goroutine of its own
					<-fallen
				case commandFreeze:
					if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
						return "", err
					}
				}
				return commandWork, nil
			},
		})
	})
}

// fetchCommand asks for an order.
func fetchCommand(ctx context.Context, what string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("ORDERS_URL")+"/"+what, nil)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	order, err := io.ReadAll(reply.Body)
	return strings.TrimSpace(string(order)), err
}
