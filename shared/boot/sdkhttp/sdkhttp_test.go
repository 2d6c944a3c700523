package sdkhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/boot/sdkhttp"
)

// sdkBody is a body as the SDK's: once it is closed, a read ends it, and WriteTo returns io.EOF.
// Who looks for its end waits until it is closed, as a goroutine may that does not get the
// processor.
type sdkBody struct {
	text   *strings.Reader
	closed chan struct{}
	once   sync.Once
	ended  chan struct{} // closed when the end was told
}

func (b *sdkBody) Read(p []byte) (int, error) {
	if b.text.Len() > 0 {
		return b.text.Read(p)
	}
	<-b.closed
	b.once.Do(func() { close(b.ended) })
	return 0, io.EOF
}

func (b *sdkBody) WriteTo(io.Writer) (int64, error) {
	_, err := b.Read(nil)
	return 0, err
}

func (b *sdkBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

// The reply arrives although the body of the request is closed before its sender has seen its end.
func TestWrap_ReplySurvivesTheEarlyCloseOfTheBody(t *testing.T) {
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.CopyN(io.Discard, r.Body, 4); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
		<-answer
		_, _ = io.WriteString(w, "messages")
	}))
	defer server.Close()
	for range 20 {
		b := &sdkBody{text: strings.NewReader("body"), closed: make(chan struct{}), ended: make(chan struct{})}
		r, err := http.NewRequest(http.MethodPost, server.URL, b)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 4
		reply, err := sdkhttp.Wrap(server.Client()).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		<-b.ended
		answer <- struct{}{}
		text, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if err != nil || string(text) != "messages" {
			t.Fatalf("the reply is %q: %v", text, err)
		}
	}
}

// The error of a request names the host, and not the path, which is a secret of the local queues.
func TestWrap_ErrorsHaveNoPath(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.Listener.Addr().String()
	server.Close()
	r, err := http.NewRequest(http.MethodPost, "http://"+address+"/secret/?key=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := sdkhttp.Wrap(http.DefaultClient).Do(r)
	if err == nil {
		_ = reply.Body.Close()
		t.Fatal("there is an answer")
	}
	if text := err.Error(); !strings.Contains(text, address) || strings.Contains(text, "secret") {
		t.Error(text)
	}
}
