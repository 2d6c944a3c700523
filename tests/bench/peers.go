package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// peerRounds is how often each engine does the work, in turn; roundTimeout is how long it may take for it.
const (
	peerRounds   = 5
	roundTimeout = 10 * time.Minute
)

// benchPeers lets Lockstep and Restate do the same work in turn on this machine, with their data on
// its disk: call the block once for each of n keys, of which only one call may be under way at a
// time. It prints the jobs a second of each round, the medians, and their ratio.
func benchPeers(ctx context.Context, out io.Writer, binary, peers string, n int) error {
	dir, err := os.MkdirTemp("", "lockstep-peers-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := startStack(ctx, binary, filepath.Join(dir, "lockstep"))
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.prepare(ctx, n, n); err != nil {
		return err
	}
	r, err := startRestate(ctx, peers, filepath.Join(dir, "restate"))
	if err != nil {
		return err
	}
	defer r.close()

	lockstep := func(ctx context.Context, _ int) error {
		x, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}})
		if err != nil {
			return err
		}
		ended, err := s.Wait(ctx, x.ID, pollInterval, nil)
		if err == nil && (ended.State != sm.ExecutionCompletedAck || ended.Progress.Jobs.Completed != n) {
			err = fmt.Errorf("the execution ended in %s with %d jobs completed", ended.State, ended.Progress.Jobs.Completed)
		}
		return err
	}
	restate := func(ctx context.Context, round int) error { return r.run(ctx, round, n, s.blockURL) }
	speeds := map[string][]float64{}
	for round := range peerRounds + 1 { // the first one warms both up
		for _, engine := range []struct {
			name string
			run  func(ctx context.Context, round int) error
		}{{"lockstep", lockstep}, {"restate", restate}} {
			began := time.Now()
			within, stop := context.WithTimeout(ctx, roundTimeout)
			err := engine.run(within, round)
			stop()
			if err != nil {
				return fmt.Errorf("%s: %w", engine.name, err)
			}
			if round > 0 {
				speed := float64(n) / time.Since(began).Seconds()
				speeds[engine.name] = append(speeds[engine.name], speed)
				printFigure(out, fmt.Sprintf("%s_round_%d", engine.name, round), speed, "1/s")
			}
		}
	}
	for _, all := range speeds {
		slices.Sort(all)
	}
	mine, theirs := speeds["lockstep"][peerRounds/2], speeds["restate"][peerRounds/2]
	printFigure(out, "lockstep_jobs_per_second", mine, "1/s")
	printFigure(out, "restate_jobs_per_second", theirs, "1/s")
	printFigure(out, "ratio", mine/theirs, "of Restate's median")
	return nil
}

// restate is a running server of Restate, with the service of peers/service.mjs.
type restate struct {
	server, service *process.Process
	ingress         string
}

func startRestate(ctx context.Context, peers, dir string) (r *restate, err error) {
	r = &restate{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	ready := process.NewReadyLine()
	service := exec.Command("node", "service.mjs")
	service.Dir, service.Stdout = peers, ready
	service.Env = append(os.Environ(), "NODE_ENV=production", "RESTATE_LOGGING=ERROR")
	if r.service, err = process.Start(service); err != nil {
		return r, err
	}
	var at string
	select {
	case at = <-ready.URL():
	case <-r.service.Done():
		return r, fmt.Errorf("the service of Restate has ended: %v; run npm ci --ignore-scripts in %s", r.service.Err(), peers)
	case <-ctx.Done():
		return r, ctx.Err()
	}
	var addresses [3]string // of the node, the ingress and the administration
	for i := range addresses {
		port, err := process.FreePort(0)
		if err != nil {
			return r, err
		}
		addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	r.ingress = "http://" + addresses[1]
	server := exec.Command(filepath.Join(peers, "node_modules", ".bin", "restate-server"), "--listen-mode", "tcp", "--base-dir", dir, "--no-logo")
	server.Env = append(os.Environ(), "RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=error",
		"RESTATE_BIND_ADDRESS="+addresses[0], "RESTATE_INGRESS__BIND_ADDRESS="+addresses[1], "RESTATE_ADMIN__BIND_ADDRESS="+addresses[2])
	if r.server, err = process.Start(server); err != nil {
		return r, err
	}
	admin := "http://" + addresses[2]
	for { // until the server answers
		err = post(ctx, admin+"/deployments", map[string]any{"uri": at}, nil)
		if err == nil {
			return r, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.server.Done():
			return r, fmt.Errorf("the server of Restate has ended: %w", r.server.Err())
		case <-ctx.Done():
			return r, err
		}
	}
}

// run calls the block once for each of n keys.
func (r *restate) run(ctx context.Context, round, n int, blockURL string) error {
	var done int
	err := post(ctx, r.ingress+"/fleet/run", map[string]any{"prefix": fmt.Sprintf("round-%d", round), "n": n, "url": blockURL}, &done)
	if err == nil && done != n {
		err = fmt.Errorf("%d of %d calls have ended well", done, n)
	}
	return err
}

func (r *restate) close() {
	for _, p := range []*process.Process{r.server, r.service} {
		if p != nil {
			p.Stop(10 * time.Second)
		}
	}
}

// post sends JSON and reads the answer.
func post(ctx context.Context, url string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", url, res.Status, strings.TrimSpace(string(answer)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
