// Command faulty is a worker function that fails on command. It asks a server of the test
// for a command when it starts and for each job.
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

// The commands.
const (
	commandWork       = "work"
	commandCrash      = "crash"   // a goroutine panics, which ends the process
	commandFreeze     = "freeze"  // the process stops until Lambda kills it at its timeout
	commandDoNotStart = "missing" // the process ends when it starts
)

func main() {
	name := os.Getenv("POOL")
	if command, err := fetchCommand(context.Background(), name); err != nil || command == commandDoNotStart {
		boot.Fatal(name, errors.Join(errors.New("commanded not to start"), err))
	}
	workerhost.Serve(name, func(w *worker.Worker) {
		worker.Register(w, worker.Block[struct{}, string]{
			Name: name + "/act", Version: "1.0.0", RunOn: "device", Idempotent: true,
			Execute: func(ctx context.Context, job *worker.Job, _ struct{}) (string, error) {
				command, err := fetchCommand(ctx, name+"/"+job.Entity.ID+"/"+job.Fence)
				if err != nil {
					return "", err
				}
				switch command {
				case commandCrash:
					go func() { panic("commanded to") }() // not recovered, since it is another goroutine
					select {}
				case commandFreeze:
					if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
						return "", err
					}
					select {} // the signal may stop this thread after it has gone on
				}
				return commandWork, nil
			},
		})
	})
}

// fetchCommand asks for the command for a pool or a job.
func fetchCommand(ctx context.Context, target string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("COMMANDS_URL")+"/"+target, nil)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	command, err := io.ReadAll(reply.Body)
	return strings.TrimSpace(string(command)), err
}
