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

// Redacted replaces what is left out of a log.
const Redacted = "REDACTED"

// SecretKeys are the keys whose values are left out of every log, whatever their type: data
// of executions, and credentials. Case, hyphens and underscores in a key are ignored.
var SecretKeys = []string{
	"parameters", "attributes", "result", "results", "input", "output", "body", "payload", "details", "updates", "variables", "labels",
	"authorization", "proxyAuthorization", "cookie", "setCookie", "header", "headers", "password", "secret", "token", "sessionToken", "apiKey",
	"xApiKey", "accessKey", "accessKeyId", "secretAccessKey", "xAmzSecurityToken", "credentials", "signature", "query", "config", "environment",
}

// SecretSuffixes are the suffixes of further such keys: clientSecret, X-Auth-Token.
var SecretSuffixes = []string{
	"authorization", "cookie", "password", "passphrase", "secret", "token", "credential", "credentials", "signature",
	"apiKey", "accessKey", "privateKey", "secretKey", "signingKey",
}

// SensitiveError is an error whose text may quote user input. If sensitive is true, a log has
// only the code, also for an error that wraps it.
type SensitiveError interface {
	error
	Sensitive() (code string, sensitive bool)
}

// redactor redacts the attributes of a log.
type redactor struct{ keys map[string]bool }

func newRedactor(extraKeys []string) *redactor {
	r := &redactor{map[string]bool{}}
	for _, keys := range [][]string{SecretKeys, extraKeys} {
		for _, k := range keys {
			r.keys[normalizeKey(k)] = true
		}
	}
	return r
}

// isSecret reports whether the value of a key is left out.
func (r *redactor) isSecret(key string) bool {
	key = normalizeKey(key)
	return r.keys[key] || slices.ContainsFunc(SecretSuffixes, func(suffix string) bool { return strings.HasSuffix(key, strings.ToLower(suffix)) })
}

// normalizeKey removes hyphens and underscores, and makes the key lower case.
func normalizeKey(key string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' || c == '_' {
			return -1
		}
		return c
	}, strings.ToLower(key))
}

// replace is the ReplaceAttr function of slog's handler.
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

// safeValue returns a value without secrets. A struct, a map or another type without a String
// method is redacted as a whole, since it would be written with all its contents.
func safeValue(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case error:
		return ErrorText(v)
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

// ErrorText returns the text of an error without secrets: only its code if it is a SensitiveError.
func ErrorText(err error) string {
	if code, sensitive := sensitiveCode(err); sensitive {
		return code + ": " + Redacted
	}
	return RedactText(err.Error())
}

// sensitiveCode reports whether err or an error that it wraps is sensitive. code is that of the
// outermost error that has one.
func sensitiveCode(err error) (code string, sensitive bool) {
	s, ok := err.(SensitiveError) //nolint:errorlint // each error of the tree is checked by itself
	if ok {
		if code, sensitive = s.Sensitive(); sensitive {
			return code, true
		}
	}
	var wrapped []error
	switch err := err.(type) { //nolint:errorlint // each error of the tree is checked by itself
	case interface{ Unwrap() error }:
		wrapped = []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		wrapped = err.Unwrap()
	}
	for _, e := range wrapped {
		if e == nil {
			continue
		}
		if inner, sensitive := sensitiveCode(e); sensitive {
			if code == "" {
				code = inner
			}
			return code, true
		}
	}
	return code, false
}

// secretNamePattern matches the name of a secret in a text, before : or =.
const secretNamePattern = `[a-z0-9_-]*(?:cookie|password|passphrase|secret|token|credentials?|signature|(?:api|access|private|secret|signing)[-_]?key)`

// secretPatterns match secrets anywhere in a text. An expression is tried only if the text has
// one of its marks, in any case, since most texts have none.
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
	{[]string{"lst1."}, regexp.MustCompile(`\blst1\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`), Redacted}, // see package token
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), Redacted},
	{[]string{"akia", "asia"}, regexp.MustCompile(`\bA(KIA|SIA)[A-Z0-9]{16}\b`), Redacted},
}

// RedactText removes everything that looks like a secret: the user and the query of a URL,
// tokens, credentials, and the value after the name of a secret.
func RedactText(s string) string {
	lower := strings.ToLower(s)
	for _, p := range secretPatterns {
		if slices.ContainsFunc(p.marks, func(mark string) bool { return strings.Contains(lower, mark) }) {
			s = p.re.ReplaceAllString(s, p.with)
		}
	}
	return s
}
