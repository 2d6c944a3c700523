package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/gateway"
	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/shared/config"
)

// Options say what to start.
type Options struct {
	Port       int      // of the HTTP API on 127.0.0.1; 0 picks a free one
	DataDir    string   // directory that keeps state; "" keeps nothing
	ConfigFile string   // YAML, handed on to the functions; "" for defaults
	NoWorker   bool     // do not serve HTTP blocks with the stock worker
	Workers    []string // commands of worker programs to run beside it
	BinDir     string   // directory of the built programs
	Log        io.Writer
}

// Times that no user has had a reason to change.
const (
	drainTimeout      = 5 * time.Second // for invocations and requests under way
	readyTimeout      = 30 * time.Second
	pollInterval      = 5 * time.Millisecond
	workerStopTimeout = 3 * time.Second
)

// Stack is a running local system.
type Stack struct {
	options Options
	config  config.Config
	log     io.Writer

	dataDirLock *os.File // the lock of the data directory; nil without one
	stores      *stores
	host        *lambdahost.Host
	funcs       map[string]*lambdahost.DeployedFunction
	server      *http.Server
	url         string
	workers     []*worker

	closeOnce sync.Once
	failures  chan error
}

// Start brings everything up and returns when requests work. The port is taken
// first, so that a second start says so at once and has touched nothing.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	cfg, err := config.Load(o.ConfigFile, os.Environ())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use: is another lockstep dev running? Choose one with --port", o.Port)
	}
	if err != nil {
		return nil, err
	}
	s := &Stack{options: o, config: cfg, log: &syncWriter{w: o.Log}, failures: make(chan error, 1), funcs: map[string]*lambdahost.DeployedFunction{}}
	s.url = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	defer func() {
		if err != nil {
			_ = listener.Close() // err is the reason
			s.Close()
		}
	}()
	if o.DataDir != "" {
		if s.dataDirLock, err = lockDataDir(o.DataDir); err != nil {
			return nil, err
		}
	}
	if s.stores, err = openStores(ctx, s); err != nil {
		return nil, err
	}
	if err := s.deploy(); err != nil {
		return nil, err
	}
	handler := gateway.New(s.funcs["api"].Invoke, gateway.Options{})
	s.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.fail(err)
		}
	}()
	if err := s.waitReady(ctx); err != nil {
		return nil, err
	}
	if err := s.writeEnv(); err != nil {
		return nil, err
	}
	for _, command := range o.Workers {
		s.workers = append(s.workers, s.superviseWorker(command))
	}
	return s, nil
}

// URL is where the HTTP API answers.
func (s *Stack) URL() string { return s.url }

// Failed delivers the error of a part that has ended although it should not.
func (s *Stack) Failed() <-chan error { return s.failures }

func (s *Stack) fail(err error) {
	select {
	case s.failures <- err:
	default: // somebody has failed already
	}
}

// waitReady waits until /health answers 200, which it does when requests work.
func (s *Stack) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := process.WaitReady(ctx, s.url+"/health", pollInterval, s.failures, func(reason error) error { return reason })
	if errors.Is(err, process.ErrNotReady) {
		return fmt.Errorf("the local stack: %w; its log says why", err)
	}
	return err
}

// Close stops everything in the order in which nothing is lost: requests, then
// worker programs, then functions, then the stores. It takes less than 15 s.
func (s *Stack) Close() {
	s.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		if s.server != nil {
			_ = s.server.Shutdown(ctx) // what is not over by then is cut off
		}
		var stopping sync.WaitGroup
		for _, w := range s.workers {
			stopping.Go(w.stop)
		}
		stopping.Wait()
		if s.host != nil {
			_ = s.host.Close(ctx) // the same
		}
		if s.stores != nil {
			s.stores.close()
		}
		if s.dataDirLock != nil {
			_ = s.dataDirLock.Close() // which lets go of it
		}
	})
}

// writeEnv leaves the environment that a worker program needs in the data
// directory, for those started by hand.
func (s *Stack) writeEnv() error {
	if s.options.DataDir == "" {
		return nil
	}
	text := "# The environment of worker programs for this local stack.\n"
	for _, kv := range s.workerEnv() {
		text += "export " + kv + "\n"
	}
	return os.WriteFile(filepath.Join(s.options.DataDir, "worker.env"), []byte(text), 0o600)
}

// syncWriter keeps lines of several writers apart.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *syncWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
