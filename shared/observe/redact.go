package observe

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Redacted stands in a log in place of what is kept out of it.
const Redacted = "REDACTED"

// Secret are the keys whose values are kept out of every log, whatever they are:
// what runs are about, and what lets somebody in. Case, hyphens and underscores of a
// key do not count.
var Secret = []string{
	"parameters", "attributes", "result", "results", "input", "output", "body", "payload", "details", "updates", "variables", "labels",
	"authorization", "proxyAuthorization", "cookie", "setCookie", "header", "headers", "password", "secret", "token", "sessionToken", "apiKey",
	"xApiKey", "accessKey", "accessKeyId", "secretAccessKey", "xAmzSecurityToken", "credentials", "signature", "query", "config", "environment",
}

// SecretEnds are the ends of further keys of that kind: clientSecret, X-Auth-Token.
var SecretEnds = []string{
	"authorization", "cookie", "password", "passphrase", "secret", "token", "credential", "credentials", "signature",
	"apiKey", "accessKey", "privateKey", "secretKey", "signingKey",
}

// Private is an error that may speak of what somebody has written or sent. Of it, and
// of whatever holds it, a log says the word alone.
type Private interface {
	error
	Private() (word string, is bool)
}

// redaction is what a log is kept free of.
type redaction struct{ keys map[string]bool }

func newRedaction(more []string) *redaction {
	r := &redaction{map[string]bool{}}
	for _, keys := range [][]string{Secret, more} {
		for _, k := range keys {
			r.keys[folded(k)] = true
		}
	}
	return r
}

// secret reports whether a key's value is kept out.
func (r *redaction) secret(key string) bool {
	key = folded(key)
	return r.keys[key] || slices.ContainsFunc(SecretEnds, func(end string) bool { return strings.HasSuffix(key, strings.ToLower(end)) })
}

func folded(key string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' || c == '_' {
			return -1
		}
		return c
	}, strings.ToLower(key))
}

// replace is what slog's handler asks of every attribute.
func (r *redaction) replace(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch a.Key {
		case slog.TimeKey:
			if a.Value.Kind() == slog.KindTime {
				a.Key = Timestamp
				return a
			}
		case slog.LevelKey:
			return a
		case slog.MessageKey:
			a.Key = Message
		}
	}
	for _, g := range groups {
		if r.secret(g) {
			return slog.String(a.Key, Redacted)
		}
	}
	if r.secret(a.Key) {
		return slog.String(a.Key, Redacted)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Clean(a.Value.String()))
	case slog.KindAny:
		a.Value = slog.AnyValue(plain(a.Value.Any()))
	}
	return a
}

// plain is what may be said of a value of any type. Of one that does not say itself
// what it is, such as a struct or a map, nothing may be: it would be written with all
// that it holds.
func plain(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case error:
		return said(v)
	case []string:
		clean := make([]string, len(v))
		for i, s := range v {
			clean[i] = Clean(s)
		}
		return clean
	case []int, []int64, time.Duration:
		return v
	case *url.URL:
		return Clean(v.String())
	case fmt.Stringer:
		return Clean(v.String())
	}
	return Redacted
}

// said is what a log says of an error.
func said(err error) string {
	if word, is := private(err); is {
		return word + ": " + Redacted
	}
	return Clean(err.Error())
}

// private looks for an error that is, in all that err holds, and finds its word, or
// that of one that holds it.
func private(err error) (word string, is bool) {
	p, known := err.(Private) //nolint:errorlint // each error of the tree is looked at by itself
	if known {
		if word, is = p.Private(); is {
			return word, true
		}
	}
	var within []error
	switch err := err.(type) { //nolint:errorlint // the same
	case interface{ Unwrap() error }:
		within = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		within = err.Unwrap()
	}
	for _, e := range within {
		if e == nil {
			continue
		}
		if inner, is := private(e); is {
			if word == "" {
				word = inner
			}
			return word, true
		}
	}
	return word, false
}

// named is how what is secret is called in a text, in front of : or =.
const named = `[a-z0-9_-]*(?:cookie|password|passphrase|secret|token|credentials?|signature|(?:api|access|private|secret|signing)[-_]?key)`

// The forms of what nobody may read, wherever it stands in a text. Each is looked for
// only where one of its marks is, in whatever case, since nearly no text has one.
var forms = []struct {
	marks []string
	re    *regexp.Regexp
	with  string
}{
	{[]string{"://"}, regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s"'<>?#]*@`), "${1}" + Redacted + "@"},
	{[]string{"://"}, regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>?#]*)[?#][^\s"'<>]*`), "${1}?" + Redacted},
	{[]string{"bearer"}, regexp.MustCompile(`(?i)\b(bearer)\s+[^\s"',;]+`), "${1} " + Redacted},
	{[]string{"basic"}, regexp.MustCompile(`(?i)\b(basic)\s+[A-Za-z0-9+/=_-]{8,}`), "${1} " + Redacted},
	{[]string{"authorization"}, regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*)["']?[^"'\n]+`), "${1}" + Redacted},
	{
		[]string{"cookie", "pass", "secret", "token", "credential", "signature", "key"},
		regexp.MustCompile(`(?i)(` + named + `["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|[^\s"',;&}]+)`), "${1}" + Redacted,
	},
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), Redacted},
	{[]string{"akia", "asia"}, regexp.MustCompile(`\bA(KIA|SIA)[A-Z0-9]{16}\b`), Redacted},
}

// Clean is a text without what has the form of a secret: the user and the query of an
// address, tokens, credentials, and what stands behind the name of one.
func Clean(s string) string {
	low := strings.ToLower(s)
	for _, f := range forms {
		if slices.ContainsFunc(f.marks, func(mark string) bool { return strings.Contains(low, mark) }) {
			s = f.re.ReplaceAllString(s, f.with)
		}
	}
	return s
}
