package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// invocation is the context key of the request id.
type invocation struct{}

// newLog makes a log that adds the request id of its context, and the buffer it writes to.
func newLog(redact ...string) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return observe.NewLog(observe.Options{Writer: &b, Component: "c", RedactKeys: redact, ContextAttrs: func(ctx context.Context) []slog.Attr {
		if id, ok := ctx.Value(invocation{}).(string); ok {
			return []slog.Attr{slog.String(observe.RequestID, id)}
		}
		return nil
	}}), &b
}

// A line has its time, level and message in the form that Lambda reads, and the attributes of
// its own context only.
func TestNewLog_WritesContextAttributes(t *testing.T) {
	log, b := newLog()
	log = log.With(observe.ExecutionID, "x1")
	log.WarnContext(context.WithValue(t.Context(), invocation{}, "r1"), "changed", observe.Attempt, 2, "took", time.Second)
	log.InfoContext(t.Context(), "again", observe.Err(nil))
	log.Debug("below the level")
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
	want := map[string]any{"level": "WARN", "message": "changed", "component": "c", "executionId": "x1", "requestId": "r1", "attempt": 2.0, "took": 1e9}
	if fmt.Sprint(first) != fmt.Sprint(want) {
		t.Errorf("wrote %v, want %v", first, want)
	}
	if _, ok := second["requestId"]; ok || second["executionId"] != "x1" {
		t.Errorf("wrote %v", second)
	}
}

const secretValue = "hunter2"

// A secret never appears in a line, whether its key, its type or its form marks it, and
// however deep it is nested.
func TestNewLog_RedactsSecrets(t *testing.T) {
	address, err := url.Parse("https://ann:" + secretValue + "@host/path?key=" + secretValue)
	if err != nil {
		t.Fatal(err)
	}
	invalid := workflow.Errorf(workflow.CodeInvalid, "the value %s is wrong", secretValue)
	for name, a := range map[string]slog.Attr{
		"a key":                         slog.String("parameters", secretValue),
		"a key in the form of a header": slog.String("X-Amz-Security-Token", secretValue),
		"a key in a group":              slog.Group("job", slog.String("result", secretValue)),
		"a group":                       slog.Group("headers", slog.String("x-custom", secretValue)),
		"a number under a key":          slog.Any("attributes", []int{4}),
		"a configured key":              slog.String("serial-number", secretValue),
		"a map":                         slog.Any("about", map[string]string{"x": secretValue}),
		"a struct":                      slog.Any("about", struct{ X string }{secretValue}),
		"raw JSON":                      slog.Any("about", json.RawMessage(`"`+secretValue+`"`)),
		"bytes":                         slog.Any("about", []byte(secretValue)),
		"a list of texts":               slog.Any("about", []string{"ok", "Bearer " + secretValue}),
		"a URL":                         slog.Any("at", address),
		"a URL in a text":               slog.String("at", "cannot call https://ann:"+secretValue+"@host:1/path?key="+secretValue+"&x=1#"+secretValue+": refused"),
		"a URL with only a user":        slog.String("at", "amqp://"+secretValue+"@host/"),
		"a bearer token":                slog.String("why", "sent bearer "+secretValue+", refused"),
		"basic credentials":             slog.String("why", "Basic aHVudGVyMg"+secretValue),
		"a header in a text":            slog.String("why", `{"Authorization": "`+secretValue+` and more"}`),
		"a header in upper case":        slog.String("why", `AUTHORIZATION: `+secretValue),
		"a suffix in camel case":        slog.String("clientSecret", secretValue),
		"a custom header":               slog.String("X-Auth-Token", secretValue),
		"a suffix in snake case":        slog.String("refresh_token", secretValue),
		"a resume token":                slog.String("why", "cannot answer with lst1.aGVs_bG8-"+secretValue+".MAC"+secretValue+": refused"),
		"a private key":                 slog.String("privateKey", secretValue),
		"a passphrase":                  slog.String("DB_PASSPHRASE", secretValue),
		"a bearer token in upper case":  slog.String("why", "BEARER "+secretValue),
		"a password in a text":          slog.String("why", "cannot log in with user=a password="+secretValue+"; gave up"),
		"a field in a text":             slog.String("why", `got {"apiKey":"`+secretValue+`","n":1}`),
		"a field with spaces":           slog.String("why", `{"client_secret": "`+secretValue+` and more"}`),
		"a header with an API key":      slog.String("why", "X-Api-Key: "+secretValue),
		"a query without host":          slog.String("why", "GET /cb?token="+secretValue+"&x=1 refused"),
		"an error":                      observe.Err(errors.New(`Post "https://h/x?token=` + secretValue + `": EOF`)),
		"a sensitive error":             observe.Err(invalid),
		"a wrapped sensitive error":     observe.Err(fmt.Errorf("advance: %w", invalid)),
		"a joined sensitive error":      observe.Err(fmt.Errorf("all: %w", errors.Join(errors.New("a"), invalid))),
		"a sensitive cause":             observe.Err(&workflow.Error{Code: workflow.CodeInternal, Message: "m", Cause: invalid}),
		"a LogValuer":                   slog.Any("about", valuer{}),
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

// Ordinary text is not changed.
func TestRedactText_KeepsOrdinaryText(t *testing.T) {
	for _, text := range []string{
		"https://host:443/a/b", "arn:aws:iam::123456789012:user/ann", "device/sw-1", "basic upgrade", "IAM", "MAIN", "0199-eyJ", "authorization failed",
		"the token has expired", "key device/sw-1: not found", "passed: 3", "partition key = a", "basic",
	} {
		if got := observe.RedactText(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	internal := workflow.Errorf(workflow.CodeUnavailable, "the table does not respond: %w", errors.New("timeout"))
	log, b := newLog()
	log.Info("m", observe.Err(internal), "at", slog.LevelInfo, "n", []int{1}, "s", []string{"a"}, slog.Group("g", slog.Time("when", time.UnixMilli(0).UTC())))
	for _, want := range []string{
		`"error":"unavailable: the table does not respond: timeout`, `"at":"INFO"`, `"n":[1]`, `"s":["a"]`, `"g":{"when":"1970-01-01T00:00:00Z"}`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	if got := observe.ErrorText(workflow.Errorf(workflow.CodeInvalid, "no")); got != "invalid: REDACTED" {
		t.Error(got)
	}
}

// Every field has a unique name and a meaning.
func TestFields_AreUniqueAndDescribed(t *testing.T) {
	var names []string
	for _, f := range observe.Fields {
		if f.Meaning == "" || slices.Contains(names, f.Name) {
			t.Errorf("field %q is duplicate or has no meaning: %q", f.Name, f.Meaning)
		}
		names = append(names, f.Name)
	}
}

// textBetween is the text between two marks, which must both exist.
func textBetween(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, started := strings.Cut(text, from)
	part, _, ended := strings.Cut(rest, to)
	if !started || !ended {
		t.Fatalf("nothing between %q and %q", from, to)
	}
	return strings.TrimSpace(part)
}

// The page lists exactly the fields, secret keys and secret suffixes of this package.
func TestObservabilityPage_ListsFieldsAndSecrets(t *testing.T) {
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, keys []string
	for _, f := range observe.Fields {
		rows = append(rows, "| `"+f.Name+"` | "+f.Meaning+" |")
	}
	for _, k := range observe.SecretKeys {
		keys = append(keys, "`"+k+"`")
	}
	if got := textBetween(t, string(page), "| field | meaning |\n| --- | --- |\n", "\n\n"); got != strings.Join(rows, "\n") {
		t.Errorf("the page has\n%s\nwant\n%s", got, strings.Join(rows, "\n"))
	}
	if got := textBetween(t, string(page), "<!-- keys -->", "<!-- end -->"); got != strings.Join(keys, ", ") {
		t.Errorf("the page has\n%s\nwant\n%s", got, strings.Join(keys, ", "))
	}
	suffixes := "`" + strings.Join(observe.SecretSuffixes, "`, `") + "`"
	if got := textBetween(t, string(page), "<!-- ends -->", "<!-- end of ends -->"); got != suffixes {
		t.Errorf("the page has\n%s\nwant\n%s", got, suffixes)
	}
}
