package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// stack is a running local stack with a server of blocks.
type stack struct {
	*client.Client
	cmd      *exec.Cmd
	blocks   *http.Server
	blockURL string // of the blocks
}

// startStack brings up lockstep dev from a binary, and a block server.
func startStack(ctx context.Context, binary string) (*stack, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stack{blockURL: "http://" + listener.Addr().String(), blocks: &http.Server{Handler: http.HandlerFunc(serveBlock), ReadHeaderTimeout: time.Minute}}
	go func() { _ = s.blocks.Serve(listener) }() // ends with Close
	s.cmd = exec.CommandContext(ctx, binary, "dev", "--port", "0")
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = 15 * time.Second
	if os.Getenv("BENCH_LOG") != "" {
		s.cmd.Stderr = os.Stderr
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			s.Client, err = client.New(client.Options{URL: url})
			return s, err
		}
	}
	return nil, errors.New("lockstep dev ended before it was ready; BENCH_LOG=1 shows its log")
}

// serveBlock is a block that is done at once, with a result of about 240 bytes.
func serveBlock(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Entity struct {
			ID string `json:"id"`
		} `json:"entity"`
	}
	_ = json.NewDecoder(r.Body).Decode(&call) // a call without a body has no entity
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"outcome":"OK","result":{"device":%q,"version":"2.0.0","image":"firmware-2.0.0.bin","checksum":"%064x","rebooted":true,"uptime":42,"warnings":[],"interfaces":{"up":47,"down":1}}}`,
		call.Entity.ID, len(call.Entity.ID))
}

// close ends the stack.
func (s *stack) close() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
	_ = s.blocks.Close()
}

// prepare registers an idempotent block and publishes a definition of one step
// for it, and makes n devices.
func (s *stack) prepare(ctx context.Context, n int) error {
	_, err := s.RegisterBlock(ctx, workflow.Block{
		Package: "bench", Name: "work", Version: "1.0.0", RunOn: "device", Idempotent: true, Reversible: true,
		HTTP: &workflow.Endpoint{URL: s.blockURL},
	})
	if err != nil {
		return err
	}
	_, _, err = s.Publish(ctx, []byte("package: bench\nname: work\nversion: 1.0.0\nseedEntity: device\n"+
		"steps: [{label: work, functionBlock: 'bench/work:1', runOn: device}]\n"), false)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"type":"device","id":"%s","attributes":{"site":"s-%d","model":"m"},"groups":["all"]}`+"\n", deviceID(i), i%10)
	}
	_, err = s.ImportEntities(ctx, strings.NewReader(lines.String()))
	return err
}

func deviceID(i int) string { return fmt.Sprintf("sw-%05d", i) }
