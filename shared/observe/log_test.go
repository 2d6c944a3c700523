package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

type invocation struct{}

// newLog makes a log that knows an invocation, and what it has written.
func newLog(redact ...string) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return observe.NewLog(observe.Options{Writer: &b, Component: "c", RedactKeys: redact, ContextAttrs: func(ctx context.Context) []slog.Attr {
		if id, ok := ctx.Value(invocation{}).(string); ok {
			return []slog.Attr{slog.String(observe.RequestID, id)}
		}
		return nil
	}}), &b
}

// A line begins with when, how bad and what, as Lambda reads them, and holds what its
// context knows; other contexts' lines do not.
func TestNewLog_WritesContextAttributes(t *testing.T) {
	log, b := newLog()
	log = log.With(observe.ExecutionID, "x1")
	log.WarnContext(context.WithValue(t.Context(), invocation{}, "r1"), "moved", observe.Attempt, 2, "took", time.Second)
	log.InfoContext(t.Context(), "again", observe.Err(nil))
	log.Debug("nobody wants to know")
	lines := bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("wrote %s", b)
	}
	var first, second map[string]any
	if err := errors.Join(json.Unmarshal(lines[0], &first), json.Unmarshal(lines[1], &second)); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(first["timestamp"])); err != nil {
		t.Error(err)
	}
	delete(first, "timestamp")
	want := map[string]any{"level": "WARN", "message": "moved", "component": "c", "executionId": "x1", "requestId": "r1", "attempt": 2.0, "took": 1e9}
	if fmt.Sprint(first) != fmt.Sprint(want) {
		t.Errorf("wrote %v, want %v", first, want)
	}
	if _, ok := second["requestId"]; ok || second["executionId"] != "x1" {
		t.Errorf("wrote %v", second)
	}
}

const secretValue = "hunter2"

// What is secret by its key, its kind or its form never stands in a line, however
// deep it is.
func TestNewLog_RedactsSecrets(t *testing.T) {
	address, err := url.Parse("https://ann:" + secretValue + "@host/path?key=" + secretValue)
	if err != nil {
		t.Fatal(err)
	}
	invalid := workflow.Errorf(workflow.CodeInvalid, "the value %s is wrong", secretValue)
	for name, a := range map[string]slog.Attr{
		"a key":                     slog.String("parameters", secretValue),
		"a key as a header has it":  slog.String("X-Amz-Security-Token", secretValue),
		"a key in a group":          slog.Group("job", slog.String("result", secretValue)),
		"a group":                   slog.Group("headers", slog.String("x-custom", secretValue)),
		"a number under a key":      slog.Any("attributes", []int{4}),
		"a key of one's own":        slog.String("serial-number", secretValue),
		"a map":                     slog.Any("about", map[string]string{"x": secretValue}),
		"a struct":                  slog.Any("about", struct{ X string }{secretValue}),
		"raw JSON":                  slog.Any("about", json.RawMessage(`"`+secretValue+`"`)),
		"bytes":                     slog.Any("about", []byte(secretValue)),
		"texts":                     slog.Any("about", []string{"ok", "Bearer " + secretValue}),
		"an address":                slog.Any("at", address),
		"an address in a text":      slog.String("at", "cannot call https://ann:"+secretValue+"@host:1/path?key="+secretValue+"&x=1#"+secretValue+": refused"),
		"only a user":               slog.String("at", "amqp://"+secretValue+"@host/"),
		"a bearer's token":          slog.String("why", "sent bearer "+secretValue+", refused"),
		"basic credentials":         slog.String("why", "Basic aHVudGVyMg"+secretValue),
		"a header in a text":        slog.String("why", `{"Authorization": "`+secretValue+` and more"}`),
		"a header, shouted":         slog.String("why", `AUTHORIZATION: `+secretValue),
		"a key with a front":        slog.String("clientSecret", secretValue),
		"a header of somebody's":    slog.String("X-Auth-Token", secretValue),
		"with an underscore":        slog.String("refresh_token", secretValue),
		"a key of a key":            slog.String("privateKey", secretValue),
		"a pass phrase":             slog.String("DB_PASSPHRASE", secretValue),
		"a token, shouted":          slog.String("why", "BEARER "+secretValue),
		"a password in a text":      slog.String("why", "cannot log in with user=a password="+secretValue+"; gave up"),
		"a field in a text":         slog.String("why", `got {"apiKey":"`+secretValue+`","n":1}`),
		"a field with a space":      slog.String("why", `{"client_secret": "`+secretValue+` and more"}`),
		"a header of a key":         slog.String("why", "X-Api-Key: "+secretValue),
		"a query without a host":    slog.String("why", "GET /cb?token="+secretValue+"&x=1 refused"),
		"an error":                  observe.Err(errors.New(`Post "https://h/x?token=` + secretValue + `": EOF`)),
		"an error of what was sent": observe.Err(invalid),
		"one that is wrapped":       observe.Err(fmt.Errorf("look: %w", invalid)),
		"one among others":          observe.Err(fmt.Errorf("all: %w", errors.Join(errors.New("a"), invalid))),
		"one behind an own code":    observe.Err(&workflow.Error{Code: workflow.CodeInternal, Message: "m", Cause: invalid}),
		"a value of its own":        slog.Any("about", valuer{}),
	} {
		t.Run(name, func(t *testing.T) {
			log, b := newLog("serialNumber")
			log.Info("m", a)
			log.With(a).Info("m")
			log.WithGroup("g").Info("m", a)
			if strings.Contains(b.String(), secretValue) || strings.Count(b.String(), observe.Redacted) < 3 {
				t.Errorf("wrote %s", b)
			}
		})
	}
	log, b := newLog()
	log.Info("called https://ann:" + secretValue + "@host/?" + secretValue)
	if strings.Contains(b.String(), secretValue) {
		t.Errorf("wrote %s", b)
	}
}

type valuer struct{}

func (valuer) LogValue() slog.Value { return slog.StringValue("Bearer " + secretValue) }

// What is not secret stays as it is.
func TestRedactText_KeepsOrdinaryText(t *testing.T) {
	for _, text := range []string{
		"https://host:443/a/b", "arn:aws:iam::123456789012:user/ann", "device/sw-1", "basic upgrade", "IAM", "MAIN", "0199-eyJ", "authorization failed",
		"the token has expired", "key device/sw-1: not found", "passed: 3", "partition key = a", "basic",
	} {
		if got := observe.RedactText(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	internal := workflow.Errorf(workflow.CodeUnavailable, "the table does not answer: %w", errors.New("timeout"))
	log, b := newLog()
	log.Info("m", observe.Err(internal), "at", slog.LevelInfo, "n", []int{1}, "s", []string{"a"}, slog.Group("g", slog.Time("when", time.UnixMilli(0).UTC())))
	for _, want := range []string{
		`"error":"unavailable: the table does not answer: timeout`, `"at":"INFO"`, `"n":[1]`, `"s":["a"]`, `"g":{"when":"1970-01-01T00:00:00Z"}`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	if got := observe.ErrorText(workflow.Errorf(workflow.CodeInvalid, "no")); got != "invalid: REDACTED" {
		t.Error(got)
	}
}

// Every name is told once.
func TestFields_AreUniqueAndDescribed(t *testing.T) {
	var names []string
	for _, f := range observe.Fields {
		if f.Meaning == "" || slices.Contains(names, f.Name) {
			t.Errorf("%q says %q", f.Name, f.Meaning)
		}
		names = append(names, f.Name)
	}
}
