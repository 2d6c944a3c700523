// Package stack runs the whole of Lockstep on one machine: DynamoDB as a child process,
// SQS in this process, the function binaries under the local Lambda host, the
// HTTP API on one port, the sweeper's schedule, and worker programs.
//
// The adapters, the SDK and the handlers are those that run on AWS; only the endpoints
// differ. Everything that this package starts ends with this process, however it ends.
//
// stack.go starts and stops the parts in order; stores.go provides DynamoDB and SQS,
// functions.go deploys the binaries, workers.go restarts worker programs.
package stack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/gateway"
	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
	"github.com/lockstep-run/lockstep/localstack/process"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/sealed"
)

// Options of a stack.
type Options struct {
	Port        int       // port of the HTTP API on 127.0.0.1; 0 picks a free one
	DataDir     string    // directory of all state; "" keeps nothing
	ConfigFile  string    // YAML, passed to the functions; "" means defaults
	SecretsFile string    // JSON, the values of secrets by name; "" leaves it to the configuration
	NoWorker    bool      // do not serve HTTP blocks with the built-in worker
	Workers     []string  // shell commands of worker programs
	Regions     []string  // that the built-in worker serves, besides those of the configuration
	BinDir      string    // directory of the built programs
	Log         io.Writer // nil is standard error
}

const (
	drainTimeout      = 5 * time.Second // for running invocations and requests
	readyTimeout      = 30 * time.Second
	pollInterval      = 5 * time.Millisecond
	workerStopTimeout = 3 * time.Second
)

// Stack is a running local system.
type Stack struct {
	options Options
	config  config.Config
	log     io.Writer

	dataDirLock *os.File // nil without a data directory
	stores      *stores
	host        *lambdahost.Host
	funcs       map[string]*lambdahost.DeployedFunction
	server      *http.Server
	url         string
	sealedKey   string // path of the file with the key of sealed parameters, "" if the configuration names another
	tokenKeys   string // path of the file with the keys of resume tokens, "" if the configuration names other keys
	workers     []*worker

	closeOnce sync.Once
	failures  chan error
}

// Start starts everything and returns when requests work. It listens on the port first,
// so that a second stack fails at once and changes nothing.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	cfg, err := config.Load(o.ConfigFile, os.Environ())
	if err != nil {
		return nil, err
	}
	for _, region := range o.Regions {
		if !slices.Contains(cfg.Regions, region) {
			cfg.Regions = append(cfg.Regions, region)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use: is another lockstep dev running? Choose another port with --port", o.Port)
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
	if err := s.makeSealedKey(); err != nil {
		return nil, err
	}
	if err := s.makeTokenKeys(); err != nil {
		return nil, err
	}
	if err := s.deploy(); err != nil {
		return nil, err
	}
	handler := gateway.New(s.funcs["api"].Invoke, gateway.Options{Interrupted: lambdahost.Interrupted})
	s.server = &http.Server{Handler: localHostsOnly(handler), ReadHeaderTimeout: 10 * time.Second}
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

// localHostsOnly refuses requests for another host than this machine. Otherwise a web page could
// have its own name resolved to 127.0.0.1, and the browser would take the API for part of that
// page's site.
func localHostsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "the local stack answers for localhost only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// URL is the address of the HTTP API.
func (s *Stack) URL() string { return s.url }

// Failed delivers the error of a part that has ended unexpectedly.
func (s *Stack) Failed() <-chan error { return s.failures }

func (s *Stack) fail(err error) {
	select {
	case s.failures <- err:
	default: // another part has failed already
	}
}

// waitReady waits until GET /health answers 200, which means that requests work.
func (s *Stack) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := process.WaitReady(ctx, s.url+"/health", pollInterval, s.failures, func(reason error) error { return reason })
	if errors.Is(err, process.ErrNotReady) {
		return fmt.Errorf("the local stack: %w; see its log", err)
	}
	return err
}

// Close stops everything in the order in which nothing is lost: requests, worker
// programs, functions, stores. It takes less than 15 s.
func (s *Stack) Close() {
	s.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		if s.server != nil {
			_ = s.server.Shutdown(ctx) // aborts requests that take longer
		}
		var stopping sync.WaitGroup
		for _, w := range s.workers {
			stopping.Go(w.stop)
		}
		stopping.Wait()
		if s.host != nil {
			_ = s.host.Close(ctx) // aborts invocations that take longer
		}
		if s.stores != nil {
			s.stores.close()
		}
		for _, file := range []string{s.tokenKeys, s.sealedKey} { // no token, and nothing sealed, outlives the state
			if s.options.DataDir == "" && file != "" {
				_ = os.Remove(file)
			}
		}
		if s.dataDirLock != nil {
			_ = s.dataDirLock.Close() // releases the lock
		}
	})
}

// writeEnv writes the environment of worker programs to worker.env in the data
// directory, for programs started by hand.
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

// makeTokenKeys makes a random key for resume tokens, unless the configuration names the keys. With
// a data directory the key stays the same, as the state does.
func (s *Stack) makeTokenKeys() (err error) {
	if s.config.Token.Keys != "" {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	content := fmt.Sprintf(`{"current":"local","keys":{"local":%q}}`, base64.StdEncoding.EncodeToString(key))
	s.tokenKeys, err = s.keyFile("token-keys.json", "token-keys-*.json", []byte(content))
	return err
}

// makeSealedKey does the same with the key of sealed parameters.
func (s *Stack) makeSealedKey() (err error) {
	if s.config.Sealed.Key == "" {
		s.sealedKey, err = s.keyFile("sealed.key", "sealed-*.key", sealed.NewFileKey())
	}
	return err
}

// keyFile is the path of the file with a key in the data directory, or of a new one with this content.
func (s *Stack) keyFile(name, pattern string, content []byte) (path string, err error) {
	if dir := s.options.DataDir; dir != "" {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	f, err := os.CreateTemp(s.options.DataDir, pattern) // only this user can read it
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(f.Name()); err != nil || s.options.DataDir == "" {
		return path, err
	}
	whole := filepath.Join(filepath.Dir(path), name)
	return whole, os.Rename(path, whole) // whole, or not at all
}

// syncWriter serialises the writes of several writers.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *syncWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// lockDataDir locks the data directory for this process. The kernel releases the lock
// when the process ends, however it ends. Two stacks in one directory would each have
// half of the state.
func lockDataDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, fmt.Errorf("cannot create the data directory %s: %w", dir, path.Err)
		}
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "dev.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot use the data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close() // err is the reason
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another lockstep dev uses the data directory %s: stop it, or choose another directory with --data", dir)
		}
		return nil, fmt.Errorf("cannot lock the data directory %s: %w", dir, err)
	}
	return lock, nil
}
