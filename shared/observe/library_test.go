package observe_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/observe"
)

// What net/http itself logs about an answer that nobody asked for, and about a handler's
// panic, has no content. Other lines are passed on.
func TestLibraryLog_OmitsContent(t *testing.T) {
	const secret = "the-content"
	lines := make(chan string, 10)
	log.SetOutput(observe.LibraryLog(func(line string) { lines <- line }))
	flags := log.Flags()
	log.SetFlags(0)
	t.Cleanup(func() { log.SetOutput(os.Stderr); log.SetFlags(flags) })

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(secret)
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		one := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		io.WriteString(conn, one+strings.Replace(one, "ok", secret[:2], 1)+secret)
	}))
	server.Config.ErrorLog = nil // the standard logger
	server.Start()
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{}}
	for path, want := range map[string]string{"/twice": "Unsolicited response", "/panic": "panic serving"} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(r); err == nil {
			_, _ = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		if line := <-lines; !strings.Contains(line, want) || strings.Contains(line, secret) || strings.Contains(line, "\n") {
			t.Errorf("%s: logged %q", path, line)
		}
	}
	log.Print("a block says " + secret)
	if line := <-lines; line != "a block says "+secret {
		t.Errorf("logged %q", line)
	}
}
