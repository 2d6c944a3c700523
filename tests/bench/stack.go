package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// stack is a running local stack, and an HTTP server for its block.
type stack struct {
	*client.Client
	program  *process.Process
	blocks   *http.Server
	blockURL string
}

// startStack starts lockstep dev, and the server of the block. It keeps its data in a directory, or
// in memory if that is empty.
func startStack(ctx context.Context, binary, data string, env ...string) (*stack, error) {
	s, err := serveBlocks()
	if err != nil {
		return nil, err
	}
	ready := process.NewReadyLine()
	cmd := exec.Command(binary, "dev", "--port", "0", "--data", data)
	cmd.Stdout = ready
	cmd.Env = append(os.Environ(), env...)
	if os.Getenv("BENCH_LOG") != "" {
		cmd.Stderr = os.Stderr
	}
	if s.program, err = process.Start(cmd); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	select {
	case url := <-ready.URL():
		s.Client, err = client.New(client.Options{URL: url})
	case <-s.program.Done():
		err = fmt.Errorf("lockstep dev ended before it was ready: %v; BENCH_LOG=1 shows its log", s.program.Err())
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// serveBlocks starts the server of the block.
func serveBlocks() (*stack, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stack{blockURL: "http://" + listener.Addr().String(), blocks: &http.Server{Handler: http.HandlerFunc(serveBlock), ReadHeaderTimeout: time.Minute}}
	go func() { _ = s.blocks.Serve(listener) }() // ends with Close
	return s, nil
}

// refusalPause is how long the block bench/fire takes for the first device, which it refuses.
const refusalPause = 2 * time.Second

// serveBlock is a block that answers at once, with a result of about 240 bytes.
func serveBlock(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Block  string `json:"block"`
		Entity struct {
			ID string `json:"id"`
		} `json:"entity"`
	}
	_ = json.NewDecoder(r.Body).Decode(&call) // a call without a body has no entity
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(call.Block, "bench/fire:") && call.Entity.ID == deviceID(0) {
		time.Sleep(refusalPause) // until another execution waits
		fmt.Fprint(w, `{"outcome":"ERROR","error":{"code":"REFUSED","message":"the first device refuses"}}`)
		return
	}
	if text, ok := strings.CutPrefix(call.Block, "bench/refuse"); ok {
		var percent, device int
		if _, err := fmt.Sscanf(text+" "+call.Entity.ID, "%d:1.0.0 sw-%d", &percent, &device); err != nil || refuses(percent, device) {
			fmt.Fprint(w, `{"outcome":"ERROR","error":{"code":"REFUSED","message":"this device refuses"}}`)
			return
		}
	}
	fmt.Fprintf(w, `{"outcome":"OK","result":{"device":%q,"version":"2.0.0","image":"firmware-2.0.0.bin","checksum":"%064x","rebooted":true,"uptime":42,"warnings":[],"interfaces":{"up":47,"down":1}}}`,
		call.Entity.ID, len(call.Entity.ID))
}

// close stops the stack.
func (s *stack) close() {
	s.program.Stop(15 * time.Second)
	_ = s.blocks.Close()
}

// prepare registers idempotent blocks, and one that cannot be undone, publishes definitions with one step that uses one, on
// devices and on items, and creates the devices: those of
// the fleet, and as many for executions over a single one.
func (s *stack) prepare(ctx context.Context, fleet, single int) error {
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
	_, err = s.RegisterBlock(ctx, workflow.Block{Package: "bench", Name: "fire", Version: "1.0.0", RunOn: "device", HTTP: &workflow.Endpoint{URL: s.blockURL}})
	if err != nil {
		return err
	}
	_, _, err = s.Publish(ctx, []byte("package: bench\nname: fire\nversion: 1.0.0\nseedEntity: device\nconfig: {failureTolerance: 1}\n"+
		"steps: [{label: fire, functionBlock: 'bench/fire:1', runOn: device}]\n"), false)
	if err != nil {
		return err
	}
	_, err = s.RegisterBlock(ctx, workflow.Block{
		Package: "bench", Name: "each", Version: "1.0.0", Idempotent: true, Reversible: true,
		HTTP: &workflow.Endpoint{URL: s.blockURL},
	})
	if err != nil {
		return err
	}
	_, _, err = s.Publish(ctx, []byte("package: bench\nname: each\nversion: 1.0.0\n"+
		"steps: [{label: each, functionBlock: 'bench/each:1', runOn: item, foreach: {items: '${parameters.items}', as: device}, parameters: {name: '${device.name}', n: '${index}'}}]\n"), false)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for i := range max(fleet, single) {
		group := "fleet"
		if i >= fleet {
			group = "others"
		}
		fmt.Fprintf(&lines, `{"type":"device","id":"%s","attributes":{"site":"s-%d","model":"m"},"groups":[%q]}`+"\n", deviceID(i), i%10, group)
	}
	_, err = s.ImportEntities(ctx, strings.NewReader(lines.String()))
	return err
}

// importDevices creates the devices of the fleet with about so many bytes of attributes, which cannot be
// compressed well.
func (s *stack) importDevices(ctx context.Context, fleet, attributes int) error {
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same in each run
	var lines strings.Builder
	for i := range fleet {
		fmt.Fprintf(&lines, `{"type":"device","id":%q,"attributes":{"site":"s-%d","notes":"`, deviceID(i), i%10)
		for range attributes / 16 {
			fmt.Fprintf(&lines, "%016x", random.Uint64())
		}
		lines.WriteString(`"},"groups":["fleet"]}` + "\n")
	}
	_, err := s.ImportEntities(ctx, strings.NewReader(lines.String()))
	return err
}

func deviceID(i int) string { return fmt.Sprintf("sw-%05d", i) }
