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

// SecretKeys are the keys whose values are kept out of every log, whatever they are:
// what runs are about, and what lets somebody in. Case, hyphens and underscores of a
// key do not count.
var SecretKeys = []string{
	"parameters", "attributes", "result", "results", "input", "output", "body", "payload", "details", "updates", "variables", "labels",
	"authorization", "proxyAuthorization", "cookie", "setCookie", "header", "headers", "password", "secret", "token", "sessionToken", "apiKey",
	"xApiKey", "accessKey", "accessKeyId", "secretAccessKey", "xAmzSecurityToken", "credentials", "signature", "query", "config", "environment",
}

// SecretSuffixes are the ends of further keys of that kind: clientSecret, X-Auth-Token.
var SecretSuffixes = []string{
	"authorization", "cookie", "password", "passphrase", "secret", "token", "credential", "credentials", "signature",
	"apiKey", "accessKey", "privateKey", "secretKey", "signingKey",
}

// SensitiveError is an error that may speak of what somebody has written or sent. Of it, and
// of whatever holds it, a log says the word alone.
type SensitiveError interface {
	error
	Sensitive() (word string, is bool)
}

// redactor is what a log is kept free of.
type redactor struct{ keys map[string]bool }

func newRedactor(more []string) *redactor {
	r := &redactor{map[string]bool{}}
	for _, keys := range [][]string{SecretKeys, more} {
		for _, k := range keys {
			r.keys[normalizeKey(k)] = true
		}
	}
	return r
}

// isSecret reports whether a key's value is kept out.
func (r *redactor) isSecret(key string) bool {
	key = normalizeKey(key)
	return r.keys[key] || slices.ContainsFunc(SecretSuffixes, func(end string) bool { return strings.HasSuffix(key, strings.ToLower(end)) })
}

func normalizeKey(key string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' || c == '_' {
			return -1
		}
		return c
	}, strings.ToLower(key))
}

// replace is what slog's handler asks of every attribute.
func (r *redactor) replace(groups []string, a slog.Attr) slog.Attr {
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
		if r.isSecret(g) {
			return slog.String(a.Key, Redacted)
		}
	}
	if r.isSecret(a.Key) {
		return slog.String(a.Key, Redacted)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(RedactText(a.Value.String()))
	case slog.KindAny:
		a.Value = slog.AnyValue(safeValue(a.Value.Any()))
	}
	return a
}

// safeValue is what may be said of a value of any type. Of one that does not say itself
// what it is, such as a struct or a map, nothing may be: it would be written with all
// that it holds.
func safeValue(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case error:
		return errorText(v)
	case []string:
		clean := make([]string, len(v))
		for i, s := range v {
			clean[i] = RedactText(s)
		}
		return clean
	case []int, []int64, time.Duration:
		return v
	case *url.URL:
		return RedactText(v.String())
	case fmt.Stringer:
		return RedactText(v.String())
	}
	return Redacted
}

// errorText is what a log says of an error.
func errorText(err error) string {
	if word, is := sensitiveCode(err); is {
		return word + ": " + Redacted
	}
	return RedactText(err.Error())
}

// sensitiveCode looks for an error that is, in all that err holds, and finds its word, or
// that of one that holds it.
func sensitiveCode(err error) (code string, is bool) {
	p, known := err.(SensitiveError) //nolint:errorlint // each error of the tree is looked at by itself
	if known {
		if code, is = p.Sensitive(); is {
			return code, true
		}
	}
	var wrapped []error
	switch err := err.(type) { //nolint:errorlint // the same
	case interface{ Unwrap() error }:
		wrapped = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		wrapped = err.Unwrap()
	}
	for _, e := range wrapped {
		if e == nil {
			continue
		}
		if inner, is := sensitiveCode(e); is {
			if code == "" {
				code = inner
			}
			return code, true
		}
	}
	return code, false
}

// secretNamePattern is how what is secret is called in a text, in front of : or =.
const secretNamePattern = `[a-z0-9_-]*(?:cookie|password|passphrase|secret|token|credentials?|signature|(?:api|access|private|secret|signing)[-_]?key)`

// The forms of what nobody may read, wherever it stands in a text. Each is looked for
// only where one of its marks is, in whatever case, since nearly no text has one.
var secretPatterns = []struct {
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
		regexp.MustCompile(`(?i)(` + secretNamePattern + `["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|[^\s"',;&}]+)`), "${1}" + Redacted,
	},
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), Redacted},
	{[]string{"akia", "asia"}, regexp.MustCompile(`\bA(KIA|SIA)[A-Z0-9]{16}\b`), Redacted},
}

// RedactText is a text without what has the form of a secret: the user and the query of an
// address, tokens, credentials, and what stands behind the name of one.
func RedactText(s string) string {
	lower := strings.ToLower(s)
	for _, f := range secretPatterns {
		if slices.ContainsFunc(f.marks, func(mark string) bool { return strings.Contains(lower, mark) }) {
			s = f.re.ReplaceAllString(s, f.with)
		}
	}
	return s
}
