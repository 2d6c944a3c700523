package httpblock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// stepSecrets are the secrets of tests.
type stepSecrets map[string]string

func (s stepSecrets) Secret(_ context.Context, _, name string) (string, error) { return s[name], nil }

// callStep calls an http step in a simulated world and returns what is recorded of its job.
func callStep(t *testing.T, block, parameters string, change ...func(m *workflow.PackMessage)) workflow.JobRecord {
	t.Helper()
	return callStepWith(t, httpblock.New([]string{httpblock.Loopback}), block, parameters, change...)
}

func callStepWith(t *testing.T, client *httpblock.Client, block, parameters string, change ...func(m *workflow.PackMessage)) workflow.JobRecord {
	t.Helper()
	world := sim.New(1)
	world.PoolQueue("default")
	ports := func() worker.Ports {
		v := world.Open()
		return worker.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
	}
	w := worker.New(worker.Options{Now: world.Now, NewNonce: world.Nonce, Sequential: true, Secrets: stepSecrets{"k": "hunter22"}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	client.RegisterStep(w)
	ref, _ := workflow.ParseRef(block)
	b, ok := workflow.BuiltinBlock(ref)
	if !ok {
		t.Fatalf("no block %s", block)
	}
	m := &workflow.PackMessage{
		Key:      workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 1}.Pack(0, 1),
		Work:     workflow.Work{Kind: workflow.JobExecute, Block: block, Step: "call", Pool: "default", Pure: b.Pure, Idempotent: b.Idempotent, Timeout: workflow.Duration(time.Minute), Lanes: 1, ResultSchema: b.ResultSchema},
		Jobs:     []workflow.JobInput{{Parameters: json.RawMessage(parameters)}},
		NotAfter: world.Now().Add(time.Hour),
	}
	for _, c := range change {
		c(m)
	}
	if d, err := w.Handle(t.Context(), m, ports()); err != nil || !d.Done {
		t.Fatalf("%+v, %v", d, err)
	}
	p, err := world.Open().Packs.Pack(t.Context(), m.Key)
	if err != nil || p == nil {
		t.Fatal(err)
	}
	return p.Jobs[0]
}

// R33: an http step sends method, address, query, headers and body as written, with the job's id as
// its idempotency key, and its result is the response.
func TestStep_SendsAndReturns(t *testing.T) {
	var got *http.Request
	var body string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r, string(raw)
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		w.Header().Set("Set-Cookie", "session=hunter3")
		w.Header().Set("Date", "")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, `{"id": 12345678901234567890, "x":"<>"}`)
	})
	for _, c := range []struct{ block, parameters, line, body, contentType, result string }{
		{workflow.HTTPSendBlock, `{"method":"POST","url":"URL/a?z=1","query":{"q":["a b",7,null,true],"n":null},"headers":{"X-N":7,"X-None":null,"X-T":"ä"},"body":{"b":[1.50]}}`,
			"POST /a?q=a+b&q=7&q=true&z=1", `{"b":[1.50]}`, "application/json", `{"status":201,"headers":{"content-length":"38","content-type":"application/problem+json; charset=utf-8","date":"","x-two":"a, b"},"body":{"id":12345678901234567890,"x":"<>"}}`},
		{workflow.HTTPSetBlock, `{"method":"PUT","url":"URL","body":"a=1&b=2","headers":{"content-type":"application/x-www-form-urlencoded"},"include":["status"]}`, "PUT /", "a=1&b=2", "application/x-www-form-urlencoded", `{"status":201}`},
		{workflow.HTTPSendBlock, `{"method":"PATCH","url":"URL","body":"text","include":["body"]}`, "PATCH /", "text", "text/plain; charset=utf-8", `{"body":{"id":12345678901234567890,"x":"<>"}}`},
		{workflow.HTTPReadBlock, `{"method":"HEAD","url":"URL","include":["status","body"]}`, "HEAD /", "", "", `{"status":201,"body":null}`},
		{workflow.HTTPSetBlock, `{"method":"DELETE","url":"URL","body":null,"include":["status"]}`, "DELETE /", "null", "application/json", `{"status":201}`},
	} {
		rec := callStep(t, c.block, strings.ReplaceAll(c.parameters, "URL", url))
		if rec.Code != workflow.JobCodeOK || string(rec.Result) != c.result {
			t.Errorf("%s: %s %+v", c.parameters, rec.Result, rec.Failure)
		}
		if line := got.Method + " " + got.URL.RequestURI(); line != c.line || body != c.body || got.Header.Get("Content-Type") != c.contentType || got.Header.Get("Idempotency-Key") != "x.1.0" {
			t.Errorf("sent %s %q %v", line, body, got.Header)
		}
	}
	if got.Header.Get("X-None") != "" || got.Header.Get("User-Agent") != "lockstep" {
		t.Errorf("sent %v", got.Header)
	}
}

// A status that the step does not expect fails it; 429 and 5xx are worth another attempt, not before
// the time that the answer names. A redirect is not followed.
func TestStep_StatusDecides(t *testing.T) {
	status, after, hits := 200, "", 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits++
		w.Header().Set("Location", "/elsewhere")
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `why`)
	})
	for _, c := range []struct {
		status    int
		after     string
		expect    string
		code      string
		retryable bool
		pause     time.Duration
	}{
		{200, "", "", "", false, 0}, {204, "", "", "", false, 0}, {302, "", "", "HTTP_302", false, 0}, {302, "", `["3xx"]`, "", false, 0},
		{404, "", "", "HTTP_404", false, 0}, {404, "", `["2xx","404"]`, "", false, 0}, {200, "", `["404"]`, "HTTP_200", false, 0},
		{429, "7", "", "HTTP_429", true, 7 * time.Second}, {503, "99999", "", "HTTP_503", true, time.Hour}, {500, "-3", "", "HTTP_500", true, 0},
		{503, time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat), "", "HTTP_503", true, 90 * time.Second}, {503, "soon", "", "HTTP_503", true, 0},
	} {
		status, after, hits = c.status, c.after, 0
		expect := c.expect
		if expect == "" {
			expect = "null"
		}
		rec := callStep(t, workflow.HTTPReadBlock, fmt.Sprintf(`{"method":"GET","url":%q,"expect":%s}`, url, expect))
		if c.code == "" {
			if rec.Failure != nil || hits != 1 {
				t.Errorf("%d: %+v", c.status, rec.Failure)
			}
			continue
		}
		if f := rec.Failure; f == nil || f.Code != c.code || f.Retryable != c.retryable || f.Unsent || hits != 1 || f.RetryAfter().Round(10*time.Second) != c.pause.Round(10*time.Second) {
			t.Errorf("%d: %+v %s, %d requests", c.status, f, f.Details, hits)
		} else if !strings.Contains(string(f.Details), fmt.Sprintf(`"status":%d`, c.status)) || !strings.Contains(string(f.Details), `"body":"why"`) {
			t.Errorf("%d: details %s", c.status, f.Details)
		}
	}
}

// What cannot be sent, or not be stored, has a code; errors that prove that nothing was sent say
// so.
func TestStep_RefusesWithCodes(t *testing.T) {
	large := strings.Repeat("x", 1<<20+1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = io.WriteString(w, large)
		case "/bytes":
			_, _ = w.Write([]byte{0xff, 0xfe})
		case "/twice":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"a":1,"a":2}`)
		case "/half":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		case "/big-error":
			w.WriteHeader(400)
			_, _ = io.WriteString(w, strings.Repeat("hunter22 ", 300))
		case "/gateway":
			w.WriteHeader(504)
		case "/busy":
			w.WriteHeader(503)
		}
	})
	for _, c := range []struct {
		block, call, code string
		unsent, retryable bool
	}{
		{workflow.HTTPReadBlock, `{"method":"GET","url":"https://192.0.2.1/"}`, "HTTP_FORBIDDEN", true, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"file:///etc/passwd"}`, "HTTP_INVALID", true, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"http://ann:pw@localhost/"}`, "HTTP_INVALID", true, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL","query":{"a":{}}}`, "HTTP_INVALID", true, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL","headers":{"a":"b\r\nc: d"}}`, "HTTP_INVALID", true, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL","headers":{"a":[]}}`, "HTTP_INVALID", true, false},
		{workflow.HTTPSendBlock, `{"method":"POST","url":"URL","body":"` + large + `"}`, "HTTP_INVALID", true, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/large"}`, workflow.FailureLimit, false, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/large","include":["status"]}`, "", false, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/bytes"}`, "HTTP_INVALID", false, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/bytes","include":["status"]}`, "", false, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/twice"}`, "HTTP_INVALID", false, false},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/half"}`, "HTTP_UNREACHABLE", false, true},
		{workflow.HTTPSendBlock, `{"method":"POST","url":"URL/half"}`, "HTTP_UNREACHABLE", false, false},
		{workflow.HTTPSendBlock, `{"method":"POST","url":"http://127.0.0.1:1/x?key=hidden"}`, "HTTP_UNREACHABLE", true, true},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL/big-error"}`, "HTTP_400", false, false},
		{workflow.HTTPSendBlock, `{"method":"POST","url":"URL/gateway"}`, "HTTP_504", false, false},
		{workflow.HTTPSendBlock, `{"method":"POST","url":"URL/busy"}`, "HTTP_503", false, true},
		{workflow.HTTPSetBlock, `{"method":"POST","url":"URL/gateway"}`, "HTTP_504", false, true},
		{workflow.HTTPReadBlock, `{"method":"GET","url":"URL","colour":"red"}`, workflow.FailureParameters, false, false},
	} {
		rec := callStep(t, c.block, strings.ReplaceAll(c.call, "URL", url))
		if c.code == "" {
			if rec.Failure != nil {
				t.Errorf("%.80s: %+v", c.call, rec.Failure)
			}
			continue
		}
		if f := rec.Failure; f == nil || f.Code != c.code || f.Unsent != c.unsent || f.Retryable != c.retryable || strings.Contains(f.Message+string(f.Details), "hidden") || strings.Contains(string(f.Details), "hunter2") {
			t.Errorf("%.80s: %+v %s", c.call, f, f.Details)
		}
	}
}

// Each attempt of a job has the same key: a server that knows it does nothing twice. The author may
// set another one.
func TestStep_KeyIsThatOfAllAttempts(t *testing.T) {
	var got []string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, strings.Join(r.Header.Values("Idempotency-Key"), "|")+" "+strings.Join(r.Header.Values("X-Idempotency-Key"), "|"))
	})
	for _, headers := range []string{`{}`, `{"IDEMPOTENCY-key":"mine"}`, `{"Idempotency-Key":null,"x-idempotency-key":"two"}`} {
		for attempt := 1; attempt <= 2; attempt++ {
			callStep(t, workflow.HTTPSetBlock, fmt.Sprintf(`{"method":"POST","url":%q,"headers":%s}`, url, headers), func(m *workflow.PackMessage) {
				m.Key = workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: 1}.Pack(0, attempt)
			})
		}
	}
	if all := strings.Join(got, ","); all != "x.1.0 ,x.1.0 ,mine ,mine ,x.1.0 two,x.1.0 two" {
		t.Errorf("keys %s", all)
	}
}

// net/http repeats a request by itself if its connection breaks and it has a key. A POST that may
// have been executed is not sent twice.
func TestStep_IsNotRepeatedByItself(t *testing.T) {
	for _, header := range []string{"X-Other", "Idempotency-Key", "X-Idempotency-Key"} {
		requests, url := brokenSecond(t)
		client := httpblock.New([]string{httpblock.Loopback})
		for range 2 {
			callStepWith(t, client, workflow.HTTPSendBlock, fmt.Sprintf(`{"method":"POST","url":%q,"headers":{%q:"once"}}`, url, header))
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("%s: 2 calls, %d requests", header, n)
		}
	}
}

// brokenSecond serves connections that break when they have got a second request.
func brokenSecond(t *testing.T) (requests *atomic.Int64, url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	requests = new(atomic.Int64)
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		for n := 0; n < 2; n++ {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			requests.Add(1)
			if n == 0 {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return requests, "http://" + l.Addr().String() + "/"
}

// A request is signed over its time and its body, with a secret that nothing else has.
func TestStep_Signs(t *testing.T) {
	var header http.Header
	var body []byte
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	})
	rec := callStep(t, workflow.HTTPSendBlock, fmt.Sprintf(`{"method":"POST","url":%q,"body":{"a":1},"sign":{"key":"${secret.k}","header":"X-Sign"}}`, url), func(m *workflow.PackMessage) {
		m.Work.Secrets = []workflow.SecretPlace{{Path: []string{"sign", "key"}, Parts: []workflow.SecretPart{{Secret: "k"}}}}
	})
	var at int64
	if _, err := fmt.Sscanf(header.Get("X-Sign"), "t=%d,v1=", &at); err != nil || rec.Failure != nil {
		t.Fatalf("%v, %v, %+v", header, err, rec.Failure)
	}
	if want := workflow.Sign([]byte("hunter22"), time.Unix(at, 0), body); header.Get("X-Sign") != want || time.Since(time.Unix(at, 0)) > time.Minute || string(body) != `{"a":1}` {
		t.Errorf("signed %s, want %s", header.Get("X-Sign"), want)
	}
	if got := workflow.Sign([]byte("key"), time.Unix(1700000000, 0), []byte(`{"a":1}`)); got != "t=1700000000,v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03" {
		t.Errorf("signed otherwise than before: %s", got)
	}
}
