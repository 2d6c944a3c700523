package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: what is written to it is typed, and what it shows is kept.
type terminal struct {
	*os.File
	typing *os.File // the side of the command

	mu    sync.Mutex
	shown bytes.Buffer
}

// newTerminal makes a terminal that is the standard input until the test ends.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = in
	one := &terminal{File: keys, typing: in}
	go func() {
		part := make([]byte, 256)
		for {
			n, err := keys.Read(part)
			one.mu.Lock()
			one.shown.Write(part[:n])
			one.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		os.Stdin = stdin
		_ = in.Close()
		_ = keys.Close()
	})
	return one
}

// echoes reports whether the terminal shows what is typed.
func (c *terminal) echoes(t *testing.T) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(c.typing.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func (c *terminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

// lockedBuffer is a buffer that a command writes while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// until waits until something is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: never", what)
		}
	}
}

// loginService has a definition with a sealed parameter, and keeps the parameters of starts.
func loginService(t *testing.T) (url string, started func() string) {
	t.Helper()
	var mu sync.Mutex
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/workflow-execution":
			var req struct{ Parameters json.RawMessage }
			raw, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(raw, &req)
			mu.Lock()
			body = string(req.Parameters)
			mu.Unlock()
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintf(w, `{"id":%q,"state":"NEW","status":"PENDING"}`, executionID)
		default:
			fmt.Fprint(w, `{"package":"p","name":"login","version":"1.0.0","digest":"d","definition":{"package":"p","name":"login","version":"1.0.0","parameters":{"type":"object","required":["password","user"],
				"properties":{"password":{"type":"string","minLength":12,"x-sealed":true},"user":{"type":"string"}}},"steps":[]}}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return body
	}
}

// What is sealed is not shown while it is typed, everything else is.
func TestForm_HidesWhatIsSealed(t *testing.T) {
	url, started := loginService(t)
	tty := newTerminal(t)
	var out bytes.Buffer
	var prompts lockedBuffer
	code := make(chan int, 1)
	go func() {
		code <- execute(t.Context(), []string{"run", "p/login:1.0.0", "--interactive", "--detach", "--url=" + url}, &out, &prompts)
	}()
	typeHidden := func(prompt int, text string) {
		t.Helper()
		until(t, "the terminal hides", func() bool {
			return strings.Count(prompts.String(), "password") >= prompt && !tty.echoes(t)
		})
		_, _ = tty.WriteString(text + "\n")
	}
	typeHidden(1, "too short")
	until(t, "a problem", func() bool { return strings.Contains(prompts.String(), "minLength") })
	typeHidden(2, "correct horse battery")
	until(t, "the next field", func() bool { return strings.Contains(prompts.String(), "user: ") && tty.echoes(t) })
	_, _ = tty.WriteString("ann\n")
	if got := <-code; got != 0 {
		t.Fatalf("exit %d\n%s", got, prompts.String())
	}
	if got := started(); got != `{"password":"correct horse battery","user":"ann"}` {
		t.Errorf("started with %s", got)
	}
	until(t, "what is typed", func() bool { return strings.Contains(tty.text(), "ann") })
	for _, text := range []string{tty.text(), prompts.String(), out.String()} {
		if strings.Contains(text, "short") || strings.Contains(text, "horse") {
			t.Errorf("it is shown: %q", text)
		}
	}
}

// Whoever interrupts the command gets the terminal back as it was.
func TestForm_AnInterruptShowsAgainWhatIsTyped(t *testing.T) {
	url, _ := loginService(t)
	tty := newTerminal(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	var out bytes.Buffer
	var prompts lockedBuffer
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"run", "p/login:1.0.0", "--interactive", "--detach", "--url=" + url}, &out, &prompts)
	}()
	until(t, "the terminal hides", func() bool { return strings.Contains(prompts.String(), "password") && !tty.echoes(t) })
	cancel(&interruptError{syscall.SIGINT})
	if got := <-code; got != 130 {
		t.Errorf("exit %d\n%s", got, prompts.String())
	}
	if !tty.echoes(t) {
		t.Error("nothing that is typed is shown any more")
	}
	_, _ = tty.WriteString("end\n") // of whoever still reads
}

// A terminal is as it was also if the interrupt comes before anything is read, or before the question.
func TestForm_AnInterruptAtAnyMomentLeavesTheTerminalAsItWas(t *testing.T) {
	tty := newTerminal(t)
	for range 200 {
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &form{ctx: ctx, in: bufio.NewReader(tty.typing), out: io.Discard, terminal: tty.typing}
		cancel(&interruptError{syscall.SIGINT})
		_, err := f.readLine(true)
		for range 20 {
			if runtime.Gosched(); !tty.echoes(t) {
				t.Fatalf("nothing that is typed is shown any more, after %v", err)
			}
		}
		_, _ = tty.WriteString("end\n") // of whoever still reads
	}
}
