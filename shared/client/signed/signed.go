package signed

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Credentials let a caller in.
type Credentials struct {
	// Token is sent as it is. It goes before a signature.
	Token string

	// KeyID, Secret and, of temporary credentials, Session are those of IAM.
	KeyID, Secret, Session string
}

// FromEnvironment reads LOCKSTEP_TOKEN, and the variables in which AWS's own tools
// leave credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
func FromEnvironment(getenv func(string) string) Credentials {
	return Credentials{
		Token: getenv(topology.EnvToken),
		KeyID: getenv("AWS_ACCESS_KEY_ID"), Secret: getenv("AWS_SECRET_ACCESS_KEY"), Session: getenv("AWS_SESSION_TOKEN"),
	}
}

// Client is an HTTP client whose requests are authorised, with a time-out of a
// minute each.
func Client(c Credentials, now func() time.Time) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &transport{c, now, http.DefaultTransport}}
}

type transport struct {
	Credentials
	now  func() time.Time
	next http.RoundTripper
}

// gateway is an address at which API Gateway checks signatures. Others, such as
// that of a local stack, are never sent one.
var gateway = regexp.MustCompile(`^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// RoundTrip sends a copy of the request that says who asks.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	at := gateway.FindStringSubmatch(r.URL.Hostname())
	switch {
	case t.Token != "":
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.Token)
	case at != nil && t.KeyID != "" && t.Secret != "":
		r = r.Clone(r.Context())
		if err := t.sign(r, at[1]); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}

const (
	algorithm = "AWS4-HMAC-SHA256"
	service   = "execute-api"
)

// sign adds the signature of the whole request: method, path, query, headers and
// body. It is good for a few minutes, in one region.
func (t *transport) sign(r *http.Request, region string) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	at := t.now().UTC()
	r.Header.Set("X-Amz-Date", at.Format("20060102T150405Z"))
	if t.Session != "" {
		r.Header.Set("X-Amz-Security-Token", t.Session)
	}
	names, lines := headers(r, len(body))
	request := strings.Join([]string{
		r.Method, escapedPath(r.URL), sortedQuery(r.URL), lines, names, digest(body),
	}, "\n")
	scope := strings.Join([]string{at.Format("20060102"), region, service, "aws4_request"}, "/")
	key := []byte("AWS4" + t.Secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, strings.Join([]string{algorithm, r.Header.Get("X-Amz-Date"), scope, digest([]byte(request))}, "\n"))
	r.Header.Set("Authorization", algorithm+" Credential="+t.KeyID+"/"+scope+", SignedHeaders="+names+", Signature="+hex.EncodeToString(signature))
	return nil
}

// headers are the names and the lines that are signed: what the request says, but
// for what somebody on the way may change.
func headers(r *http.Request, length int) (names, lines string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	values := map[string]string{"host": host}
	if length > 0 {
		values["content-length"] = strconv.Itoa(length)
	}
	for name, all := range r.Header {
		if name == "Authorization" || name == "User-Agent" {
			continue
		}
		trimmed := make([]string, len(all))
		for i := range all {
			trimmed[i] = strings.Join(strings.Fields(all[i]), " ")
		}
		values[strings.ToLower(name)] = strings.Join(trimmed, ",")
	}
	sorted := make([]string, 0, len(values))
	for name := range values {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	var b strings.Builder
	for _, name := range sorted {
		b.WriteString(name + ":" + values[name] + "\n")
	}
	return strings.Join(sorted, ";"), b.String()
}

// escapedPath escapes the path as it is sent once more, as the signature wants it.
func escapedPath(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		return "/"
	}
	var b strings.Builder
	for _, c := range []byte(path) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}

// sortedQuery is the query in order of name and value.
func sortedQuery(u *url.URL) string {
	query := u.Query()
	for name := range query {
		slices.Sort(query[name])
	}
	return strings.ReplaceAll(query.Encode(), "+", "%20")
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
