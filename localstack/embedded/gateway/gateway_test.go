package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/localstack/embedded/gateway"
	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

func options(log io.Writer) gateway.Options {
	return gateway.Options{
		Now:   func() time.Time { return time.Date(2020, 3, 12, 20, 3, 58, 390e6, time.FixedZone("CET", 3600)) },
		NewID: func() string { return "id-1" },
		Log:   slog.New(slog.NewJSONHandler(log, nil)),
	}
}

// eventOf sends one request and returns the event that the function got.
func eventOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	var event []byte
	h := gateway.New(func(_ context.Context, e []byte) ([]byte, error) {
		event = e
		return []byte(`{"statusCode":200}`), nil
	}, options(t.Output()))
	h.ServeHTTP(httptest.NewRecorder(), r)
	return event
}

func TestHandler_EventMatchesAPIGateway(t *testing.T) {
	r := httptest.NewRequest("POST", "http://api.localhost:3030/locks/device/sw%207%2Fx?limit=2&limit=3&query=a%20b&empty=", strings.NewReader(`{"a": "grün"}`))
	r.Header.Add("Accept", "text/html")
	r.Header.Add("Accept", "application/json")
	r.Header.Add("Cookie", "session=1; theme=dark")
	r.Header.Add("Cookie", "last=2")
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "curl/8")
	r.Header.Set("X-Forwarded-For", "198.51.100.9")
	payload := eventOf(t, r)

	fixture, err := os.ReadFile("testdata/event.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(payload, &got), json.Unmarshal(fixture, &want)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var decoded events.APIGatewayV2HTTPRequest
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&decoded); err != nil {
		t.Error(err)
	}
}

func TestHandler_EventOmitsEmptyFields(t *testing.T) {
	var raw map[string]any
	if err := json.Unmarshal(eventOf(t, httptest.NewRequest("GET", "http://localhost/", nil)), &raw); err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"body", "cookies", "queryStringParameters"} {
		if v, ok := raw[absent]; ok {
			t.Errorf("%s is %v", absent, v)
		}
	}
	if raw["rawPath"] != "/" || raw["rawQueryString"] != "" || raw["isBase64Encoded"] != false {
		t.Errorf("%v", raw)
	}
}

func TestHandler_EncodesBinaryBodiesAsBase64(t *testing.T) {
	for name, c := range map[string]struct {
		kind, encoding, body, want string
		base64                     bool
	}{
		"JSON":            {"application/json", "", `{"a":1}`, `{"a":1}`, false},
		"problem":         {"application/problem+json", "", `{}`, `{}`, false},
		"YAML as text":    {"text/yaml", "", "a: 1", "a: 1", false},
		"form":            {"application/x-www-form-urlencoded", "", "a=1", "YT0x", true},
		"no type":         {"", "", "a", "YQ==", true},
		"binary":          {"application/octet-stream", "", "\x00\x01\xff", "AAH/", true},
		"text, not UTF-8": {"text/plain", "", "\xff", "/w==", true},
		"compressed JSON": {"application/json", "gzip", "zip", "emlw", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.kind)
			r.Header.Set("Content-Encoding", c.encoding)
			var e events.APIGatewayV2HTTPRequest
			if err := json.Unmarshal(eventOf(t, r), &e); err != nil || e.Body != c.want || e.IsBase64Encoded != c.base64 {
				t.Errorf("body %q, base64 %v, %v", e.Body, e.IsBase64Encoded, err)
			}
		})
	}
}

func TestHandler_TranslatesReplies(t *testing.T) {
	for name, c := range map[string]struct {
		reply  string
		status int
		header http.Header // some headers of the response
		body   string
	}{
		"all fields": {
			`{"statusCode":201,"headers":{"content-type":"application/json","Location":"/x","Content-Length":"99","Connection":"upgrade"},
			  "multiValueHeaders":{"vary":["A","B"]},"cookies":["a=1; Path=/","b=2"],"body":"{}"}`,
			201, http.Header{"Content-Type": {"application/json"}, "Location": {"/x"}, "Vary": {"A", "B"}, "Set-Cookie": {"a=1; Path=/", "b=2"}, "Content-Length": {"2"}, "Connection": nil}, "{}",
		},
		"base64":            {`{"statusCode":200,"headers":{"Content-Type":"image/png"},"body":"AAH/","isBase64Encoded":true}`, 200, http.Header{"Content-Type": {"image/png"}}, "\x00\x01\xff"},
		"null fields":       {`{"statusCode":404,"headers":null,"multiValueHeaders":null,"cookies":null,"body":""}`, 404, http.Header{"Set-Cookie": nil}, ""},
		"no content":        {`{"statusCode":204,"body":"ignored"}`, 204, nil, ""},
		"text by default":   {`{"statusCode":200,"body":"<html>"}`, 200, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, "<html>"},
		"no status code":    {`{"a":1}`, 200, http.Header{"Content-Type": {"application/json"}}, `{"a":1}`},
		"JSON text":         {`"hello"`, 200, http.Header{"Content-Type": {"application/json"}}, `"hello"`},
		"request id header": {`{"statusCode":200}`, 200, http.Header{"Apigw-Requestid": {"id-1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := gateway.New(func(context.Context, []byte) ([]byte, error) { return []byte(c.reply), nil }, options(t.Output()))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("%d %q", w.Code, w.Body)
			}
			for name, want := range c.header {
				if got := w.Header()[name]; !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
		Errors                    []any
	}
	err := json.Unmarshal(w.Body.Bytes(), &p)
	if err != nil || w.Code != status || p.Status != status || p.Code != code || p.Errors == nil || p.Type == "" || p.Title == "" || p.Detail == "" ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
}

func TestHandler_FailuresHideDetails(t *testing.T) {
	for name, c := range map[string]struct {
		reply  string
		err    error
		logged string
	}{
		"function error":       {"", errors.New("secret stack"), "secret stack"},
		"not JSON":             {"secret", nil, "not JSON"},
		"empty reply":          {"", nil, "not JSON"},
		"bad status code":      {`{"statusCode":"ok"}`, nil, "statusCode is a string"},
		"status code 42":       {`{"statusCode":42}`, nil, "status 42"},
		"bad base64":           {`{"statusCode":200,"body":"!","isBase64Encoded":true}`, nil, "not base64"},
		"headers are an array": {`{"statusCode":200,"headers":["secret"]}`, nil, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := gateway.New(func(context.Context, []byte) ([]byte, error) { return []byte(c.reply), c.err }, options(&log))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			checkProblem(t, w, 500, "internal")
			if strings.Contains(w.Body.String(), "secret") || !strings.Contains(log.String(), c.logged) {
				t.Errorf("body %s\nlog %s", w.Body, log.String())
			}
		})
	}
}

func TestHandler_TimesOut(t *testing.T) {
	o := options(t.Output())
	o.Timeout = 10 * time.Millisecond
	h := gateway.New(func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, o)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	checkProblem(t, w, 503, "unavailable")
}

// A request whose function ends before it answers may be tried again.
func TestHandler_AnswersUnavailableIfInterrupted(t *testing.T) {
	o := options(t.Output())
	ended := errors.New("signal: killed")
	o.Interrupted = func(err error) bool { return errors.Is(err, ended) }
	h := gateway.New(func(context.Context, []byte) ([]byte, error) { return nil, fmt.Errorf("the function: %w", ended) }, o)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	checkProblem(t, w, 503, "unavailable")
	if w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "killed") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

// The alarm on errors of the HTTP interface is raised by five answers of 500 or more within five minutes: of a
// function that fails, that has no time or that answers so itself. What callers do wrong does not raise it.
func TestAlarm_HTTPErrors(t *testing.T) {
	type invoke = func(context.Context, []byte) ([]byte, error)
	reply := func(status int) invoke {
		return func(context.Context, []byte) ([]byte, error) {
			return fmt.Appendf(nil, `{"statusCode":%d}`, status), nil
		}
	}
	failing := func(context.Context, []byte) ([]byte, error) { return nil, errors.New("it fails") }
	slow := func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, c := range map[string]struct {
		functions []invoke // of the requests, one a minute
		fires     bool
	}{
		"five":                {[]invoke{failing, slow, reply(500), reply(503), failing}, true},
		"four":                {[]invoke{failing, slow, reply(500), reply(503), reply(200)}, false},
		"mistakes of callers": {[]invoke{reply(400), reply(403), reply(404), reply(409), reply(429)}, false},
		"five in ten minutes": {[]invoke{failing, reply(200), failing, reply(200), failing, reply(200), failing, reply(200), failing, reply(200)}, false},
	} {
		begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var answers []testkit.Measured
		for i, f := range c.functions {
			o := options(t.Output())
			o.Timeout = 10 * time.Millisecond
			w := httptest.NewRecorder()
			gateway.New(f, o).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			answers = append(answers, testkit.Measured{At: begin.Add(time.Duration(i) * time.Minute), Value: w.Code / 500})
		}
		if got := testkit.ReadAlarm(t, "HttpErrors").Fires(answers); got != c.fires {
			t.Errorf("%s: raised %v, want %v, by %v", name, got, c.fires, answers)
		}
	}
}

// A client that sends a body which is too large, and reads no answer before all is sent, gets
// the answer and no reset.
func TestHandler_AnswersWhoeverSendsTooMuch(t *testing.T) {
	server := httptest.NewServer(gateway.New(func(context.Context, []byte) ([]byte, error) { return []byte(`{"statusCode":200}`), nil }, gateway.Options{}))
	defer server.Close()
	for _, announced := range []bool{true, false} {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		const size = 40 << 20
		if announced {
			fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size)
		} else {
			fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", size)
		}
		if _, err := connection.Write(make([]byte, size)); err != nil {
			t.Fatalf("announced %v: %v", announced, err)
		}
		if !announced {
			fmt.Fprint(connection, "\r\n0\r\n\r\n")
		}
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatalf("announced %v: %v", announced, err)
		}
		if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != 413 || !strings.Contains(string(body), `"code":"too_large"`) {
			t.Errorf("announced %v: %s %s, %v", announced, answer.Status, body, err)
		}
	}
}

// A body that does not arrive does not hold its connection for ever.
func TestHandler_WaitsForABodyOnlySoLong(t *testing.T) {
	server := httptest.NewServer(gateway.New(func(context.Context, []byte) ([]byte, error) { return []byte(`{"statusCode":200}`), nil }, gateway.Options{BodyTimeout: 20 * time.Millisecond}))
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprint(connection, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
	answer, err := io.ReadAll(connection) // ends when the server closes the connection
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), "did not arrive within 20ms") {
		t.Errorf("%s, %v", answer, err)
	}
}

// The time for the body is not the time for the answer.
func TestHandler_BodyTimeoutDoesNotEndTheRequest(t *testing.T) {
	o := options(t.Output())
	o.Now, o.BodyTimeout = time.Now, 20*time.Millisecond
	h := gateway.New(func(ctx context.Context, _ []byte) ([]byte, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * o.BodyTimeout):
			return []byte(`{"statusCode":201}`), nil
		}
	}, o)
	server := httptest.NewServer(h)
	defer server.Close()
	for _, body := range []string{"", "all"} {
		answer, err := http.Post(server.URL, "text/plain", strings.NewReader(body))
		if err != nil || answer.StatusCode != 201 {
			t.Fatalf("%q: %v, %v", body, answer, err)
		}
		answer.Body.Close()
	}
}

func TestHandler_IgnoresGoneClient(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	h := gateway.New(func(inner context.Context, _ []byte) ([]byte, error) {
		cancel()
		<-inner.Done()
		return nil, inner.Err()
	}, options(&log))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if w.Body.Len() > 0 || log.Len() > 0 {
		t.Errorf("body %s, log %s", w.Body, log.String())
	}
}

func TestHandler_LimitsBodySize(t *testing.T) {
	const limit = 10 << 20
	calls := 0
	h := gateway.New(func(_ context.Context, e []byte) ([]byte, error) { calls++; return []byte(`{"statusCode":200}`), nil }, options(t.Output()))
	send := func(size int, announce bool) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, size)))
		if !announce {
			r.ContentLength = -1
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	checkProblem(t, send(limit+1, true), 413, "too_large")
	checkProblem(t, send(limit+1, false), 413, "too_large")
	if calls != 0 {
		t.Error("the function was invoked")
	}
	if w := send(limit, true); w.Code != 200 || calls != 1 {
		t.Errorf("10 MiB: %d %s", w.Code, w.Body)
	}
}

// Through the gateway and the adapter of the API function, a handler sees what the
// client sent and the client sees what the handler wrote.
func TestHandler_RoundTripThroughLambdaAdapter(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c, err := r.Cookie("b")
		if err != nil || c.Value != "2" || r.URL.Path != "/a b/ü" || r.URL.RawQuery != "x=1&x=%26" || r.Host != "api.localhost" || r.Header.Get("X-Two") != "1,2" {
			t.Errorf("%s on %s, cookie %v, header %v", r.URL, r.Host, c, r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "3"})
		http.SetCookie(w, &http.Cookie{Name: "d", Value: "4"})
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusAccepted)
		w.Write(append(body, 0xfe))
	})
	fn := lambdahttp.New(handler, lambdahttp.Options{})
	invoke := func(ctx context.Context, payload []byte) ([]byte, error) {
		var e events.APIGatewayV2HTTPRequest
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		out, err := fn(ctx, e)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	server := httptest.NewServer(gateway.New(invoke, options(t.Output())))
	defer server.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "PUT", server.URL+"/a%20b/%C3%BC?x=1&x=%26", bytes.NewReader([]byte{0, 0xff}))
	r.Host = "api.localhost"
	r.Header["X-Two"] = []string{"1", "2"}
	r.Header.Set("Cookie", "a=1; b=2")
	out, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil || out.StatusCode != 202 || !bytes.Equal(body, []byte{0, 0xff, 0xfe}) || len(out.Cookies()) != 2 {
		t.Errorf("%d %v %v, %v", out.StatusCode, body, out.Header, err)
	}
}
