package lambdahttp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-run/lockstep/shared/api/lambdahttp"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// loadEvent reads an event from testdata.
func loadEvent(t *testing.T, name string) events.APIGatewayV2HTTPRequest {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var e events.APIGatewayV2HTTPRequest
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatal(err)
	}
	return e
}

// call serves an event with handler and decodes the response from its JSON.
func call(t *testing.T, e events.APIGatewayV2HTTPRequest, o lambdahttp.Options, handler http.HandlerFunc) events.APIGatewayV2HTTPResponse {
	t.Helper()
	out, err := lambdahttp.New(handler, o)(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var back events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(wire, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestNew_FullEvent(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "the invocation's")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		theme, err := r.Cookie("theme")
		got := []any{
			r.Method, r.URL.Path, r.RequestURI, r.URL.Query()["limit"], r.URL.Query().Get("query"), string(body), r.ContentLength,
			r.Host, r.Header.Get("Host"), r.RemoteAddr, r.Header.Get("Accept"), r.UserAgent(), r.Proto, r.ProtoMajor,
			theme.Value, err, r.Context().Value(key{}),
		}
		want := []any{
			"POST", "/locks/device/sw 7", "/locks/device/sw%207?limit=2&limit=3&query=a%20b", []string{"2", "3"}, "a b", `{"a": "grün"}`, int64(14),
			"api.example.com", "", "192.0.2.1:0", "application/json,text/html", "curl/8", "HTTP/1.1", 1,
			"dark", error(nil), "the invocation's",
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
	if _, err := lambdahttp.New(h, lambdahttp.Options{})(ctx, loadEvent(t, "full.json")); err != nil {
		t.Fatal(err)
	}
}

func TestNew_BinaryBodyAndStage(t *testing.T) {
	call(t, loadEvent(t, "base64.json"), lambdahttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/entities/import" || !bytes.Equal(body, []byte{0, 1, 255}) || r.RemoteAddr != "[2001:db8::1]:0" ||
			r.Host != "id.execute-api.us-east-1.amazonaws.com" {
			t.Errorf("%s %v from %s to %s", r.URL.Path, body, r.RemoteAddr, r.Host)
		}
	})
}

func TestNew_MinimalEvent(t *testing.T) {
	out := call(t, loadEvent(t, "minimal.json"), lambdahttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != "GET" || r.URL.Path != "/" || len(body) > 0 || err != nil || r.ContentLength != 0 || len(r.Header) > 0 {
			t.Errorf("%+v", r)
		}
	})
	if out.StatusCode != 200 || out.Body != "" || out.IsBase64Encoded || out.Headers == nil || out.Cookies == nil {
		t.Errorf("%+v", out)
	}
}

func TestNew_DoesNotDecodePathTwice(t *testing.T) {
	e := loadEvent(t, "minimal.json")
	e.RawPath = "/entities/device/100%25/a%2Fb/50%"
	call(t, e, lambdahttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != e.RawPath {
			t.Errorf("path %q", r.URL.Path)
		}
	})
}

func TestNew_RefusesInvalidEvents(t *testing.T) {
	broken, method := loadEvent(t, "base64.json"), loadEvent(t, "minimal.json")
	broken.Body = "!"
	method.RequestContext.HTTP.Method = "NO WAY"
	for _, e := range []events.APIGatewayV2HTTPRequest{broken, method} {
		out := call(t, e, lambdahttp.Options{}, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		checkProblem(t, out, 400, "invalid")
	}
}

func checkProblem(t *testing.T, out events.APIGatewayV2HTTPResponse, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	err := json.Unmarshal([]byte(out.Body), &p)
	if err != nil || out.StatusCode != status || p.Status != status || p.Code != code || out.Headers["Content-Type"] != "application/problem+json" ||
		p.Type == "" || p.Title == "" || p.Detail == "" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestNew_EncodesResponse(t *testing.T) {
	picture := "\x89PNG\r\n\x1a\n\x00"
	for name, c := range map[string]struct {
		method  string
		handler http.HandlerFunc
		want    events.APIGatewayV2HTTPResponse
	}{
		"text, cookies and repeated headers": {"GET", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Add("Vary", "Accept")
			w.Header().Add("Vary", "X-Tenant")
			w.Header().Set("Content-Length", "7")
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
			w.WriteHeader(103)
			w.WriteHeader(409)
			w.WriteHeader(200)
			w.Header().Set("Late", "1")
			io.WriteString(w, `{"ä":1}`)
		}, events.APIGatewayV2HTTPResponse{
			StatusCode: 409, Body: `{"ä":1}`, Cookies: []string{"a=1", "b=2"},
			Headers: map[string]string{"Content-Type": "application/problem+json", "Vary": "Accept, X-Tenant"},
		}},
		"binary": {"GET", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, picture) }, events.APIGatewayV2HTTPResponse{
			StatusCode: 200, Body: base64.StdEncoding.EncodeToString([]byte(picture)), IsBase64Encoded: true,
			Headers: map[string]string{"Content-Type": "image/png"}, Cookies: []string{},
		}},
		"compressed text is binary": {"GET", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "zip")
		}, events.APIGatewayV2HTTPResponse{
			StatusCode: 200, Body: "emlw", IsBase64Encoded: true,
			Headers: map[string]string{"Content-Type": "text/html", "Content-Encoding": "gzip"}, Cookies: []string{},
		}},
		"text that is not UTF-8": {"GET", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "\xff")
		}, events.APIGatewayV2HTTPResponse{
			StatusCode: 200, Body: "/w==", IsBase64Encoded: true,
			Headers: map[string]string{"Content-Type": "text/plain"}, Cookies: []string{},
		}},
		"head": {"HEAD", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "hello")
		}, events.APIGatewayV2HTTPResponse{
			StatusCode: 200, Headers: map[string]string{"Content-Type": "text/plain", "Content-Length": "5"}, Cookies: []string{},
		}},
		"no content": {"DELETE", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(204)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("write after 204: %v", err)
			}
			w.(http.Flusher).Flush()
		}, events.APIGatewayV2HTTPResponse{StatusCode: 204, Headers: map[string]string{}, Cookies: []string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := loadEvent(t, "minimal.json")
			e.RequestContext.HTTP.Method = c.method
			if got := call(t, e, lambdahttp.Options{}, c.handler); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestNew_PanicBecomesProblem(t *testing.T) {
	var log bytes.Buffer
	o := lambdahttp.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))}
	out := call(t, loadEvent(t, "minimal.json"), o, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half an ans")
		panic("secret detail")
	})
	checkProblem(t, out, 500, "internal")
	if strings.Contains(out.Body, "secret") || strings.Contains(out.Body, "half") || !strings.Contains(log.String(), "secret detail") ||
		!strings.Contains(log.String(), "TestNew_PanicBecomesProblem") {
		t.Errorf("body %s\nlog %s", out.Body, log.String())
	}
}

// The work for a request ends early enough that it is answered before its invocation is over.
func TestNew_ReservesTimeForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for invocation, want := range map[time.Duration]time.Duration{29 * time.Second: 28 * time.Second, time.Second: time.Second / 2, 0: 0} {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if invocation > 0 {
				ctx, cancel = context.WithTimeout(ctx, invocation)
			}
			begin := time.Now()
			out, err := lambdahttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if invocation > 0 {
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}), lambdahttp.Options{})(ctx, loadEvent(t, "minimal.json"))
			if took := time.Since(begin); err != nil || out.StatusCode != http.StatusServiceUnavailable || took != want {
				t.Errorf("of %s: answered after %s with %d, %v; want after %s", invocation, took, out.StatusCode, err, want)
			}
			cancel()
		}
	})
}

// withClaim returns an event whose caller has one more claim, and has named roles in a header.
func withClaim(event events.APIGatewayV2HTTPRequest, name, value string) events.APIGatewayV2HTTPRequest {
	authorizer := *event.RequestContext.Authorizer
	jwt := *authorizer.JWT
	jwt.Claims = maps.Clone(jwt.Claims)
	jwt.Claims[name] = value
	authorizer.JWT = &jwt
	event.RequestContext.Authorizer = &authorizer
	event.Headers = maps.Clone(event.Headers)
	event.Headers["x-roles"] = "forged"
	return event
}

// withToken is an event with tokens in the header Authorization, as the gateway passes it on.
func withToken(event events.APIGatewayV2HTTPRequest, claims ...string) events.APIGatewayV2HTTPRequest {
	event.Headers = maps.Clone(event.Headers)
	var tokens []string
	for _, c := range claims {
		tokens = append(tokens, "Bearer e30."+base64.RawURLEncoding.EncodeToString([]byte(c))+".c2ln")
	}
	event.Headers["authorization"] = strings.Join(tokens, ",")
	return event
}

func TestIdentity_ReplacesClientHeaders(t *testing.T) {
	full, iam, anonymous := loadEvent(t, "full.json"), loadEvent(t, "base64.json"), loadEvent(t, "full.json")
	anonymous.RequestContext.Authorizer = nil
	for name, c := range map[string]struct {
		event events.APIGatewayV2HTTPRequest
		id    lambdahttp.Identity
		want  workflow.Caller
	}{
		"claims": {full, lambdahttp.FromAuthorizer("team", ""), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"roles":  {withToken(withClaim(full, "groups", "[cab duty]"), `{"sub":"ada","groups":["cab","duty"]}`), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north", Roles: "cab,duty"}},
		"no role by a part of a name": {
			withToken(withClaim(full, "groups", "[cab platform admin x,admin  admin 7 ]"), `{"sub":"ada","groups":["cab","platform admin","x,admin"," admin",7,"",null,"a\tadmin"]}`),
			lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north", Roles: "cab"},
		},
		"a text is one name":      {withToken(withClaim(full, "groups", "platform admin"), `{"sub":"ada","groups":"platform admin"}`), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"no token in the header":  {withClaim(full, "groups", "[platform admin]"), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"token of somebody else":  {withToken(withClaim(full, "groups", "[platform admin]"), `{"sub":"eve","groups":["platform","admin"]}`), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"two tokens":              {withToken(withClaim(full, "groups", "[platform admin]"), `{"sub":"ada","groups":["platform admin"]}`, `{"sub":"ada","groups":["platform","admin"]}`), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"a claim nobody verified": {withToken(full, `{"sub":"ada","groups":["admin"]}`), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"a list of one":           {withClaim(full, "groups", "[cab]"), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north", Roles: "cab"}},
		"one role":                {withClaim(full, "groups", "cab"), lambdahttp.FromAuthorizer("team", "groups"), workflow.Caller{Actor: "ada", Tenant: "north", Roles: "cab"}},
		"roles not asked for":     {withClaim(full, "groups", "cab"), lambdahttp.FromAuthorizer("team", ""), workflow.Caller{Actor: "ada", Tenant: "north"}},
		"no claim configured":     {full, lambdahttp.FromAuthorizer("", ""), workflow.Caller{Actor: "ada", Tenant: "default"}},
		"claim is missing":        {full, lambdahttp.FromAuthorizer("company", ""), workflow.Caller{}},
		"IAM":                     {iam, lambdahttp.FromAuthorizer("", ""), workflow.Caller{Actor: "arn:aws:iam::123456789012:user/ada", Tenant: "default"}},
		"IAM with a claim":        {iam, lambdahttp.FromAuthorizer("team", ""), workflow.Caller{}},
		"no authorizer":           {anonymous, lambdahttp.FromAuthorizer("team", ""), workflow.Caller{}},
		"no identity":             {full, nil, workflow.Caller{Actor: "forged", Tenant: "forged"}},
	} {
		t.Run(name, func(t *testing.T) {
			call(t, c.event, lambdahttp.Options{Identity: c.id}, func(w http.ResponseWriter, r *http.Request) {
				got, err := lambdahttp.Caller(r)
				if got != c.want || (err != nil) != (c.want == workflow.Caller{}) || err != nil && !workflow.Is(err, workflow.CodeUnauthorized) {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

// Lambda refuses a reply of more than 6 MiB. A body that is larger when quoted is sent in base64,
// and one that is still too large becomes a problem that says what to do.
func TestNew_BoundsReply(t *testing.T) {
	event, err := json.Marshal(loadEvent(t, "minimal.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"characters of HTML": {strings.Repeat("<", 5<<20), 200},
		"quotes":             {strings.Repeat(`"`, 4<<20), 200},
		"control characters": {strings.Repeat("\x01", 3<<20), 200},
		"too large":          {strings.Repeat("x", 6<<20), 422},
		"too many quotes":    {strings.Repeat(`"`, 5<<20), 422},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, c.body)
		})
		raw, err := lambda.NewHandler(lambdahttp.New(handler, lambdahttp.Options{})).Invoke(t.Context(), event)
		if err != nil || len(raw) > 6<<20 {
			t.Fatalf("%s: a reply of %d bytes, %v", name, len(raw), err)
		}
		var out events.APIGatewayV2HTTPResponse
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		if out.StatusCode != c.status {
			t.Errorf("%s: status %d", name, out.StatusCode)
		}
		if c.status != 200 {
			checkProblem(t, out, 422, "limit")
			continue
		}
		if body := []byte(out.Body); out.IsBase64Encoded {
			if body, err = base64.StdEncoding.DecodeString(out.Body); string(body) != c.body || err != nil {
				t.Errorf("%s: another body, %v", name, err)
			}
		} else if out.Body != c.body {
			t.Errorf("%s: another body", name)
		}
	}
}
