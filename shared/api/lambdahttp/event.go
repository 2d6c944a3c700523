package lambdahttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// newRequest makes the request that a server behind the gateway would receive. Every
// field of the event may be missing; only a body that is not base64 or an invalid method
// is an error.
func newRequest(ctx context.Context, event *events.APIGatewayV2HTTPRequest) (*http.Request, error) {
	body := []byte(event.Body)
	if event.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(event.Body); err != nil {
			return nil, errors.New("the body is not base64")
		}
	}
	reqCtx := event.RequestContext
	r, err := http.NewRequestWithContext(ctx, reqCtx.HTTP.Method, "/", bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the HTTP method is invalid")
	}
	r.URL = &url.URL{Path: requestPath(event), RawQuery: event.RawQueryString}
	r.RequestURI = r.URL.RequestURI()
	if len(body) == 0 {
		r.Body, r.GetBody = io.NopCloser(http.NoBody), nil
	}
	for name, value := range event.Headers {
		// The values of a repeated header arrive joined by commas, which is equivalent in
		// HTTP.
		r.Header.Set(name, value)
	}
	// Use the id that the gateway's own log has for the request.
	if reqCtx.RequestID != "" && r.Header.Get(headerRequestID) == "" {
		r.Header.Set(headerRequestID, reqCtx.RequestID)
	}
	if len(event.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(event.Cookies, "; "))
	}
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	if r.Host == "" {
		r.Host = reqCtx.DomainName
	}
	if reqCtx.HTTP.SourceIP != "" {
		r.RemoteAddr = net.JoinHostPort(reqCtx.HTTP.SourceIP, "0")
	}
	if major, minor, ok := http.ParseHTTPVersion(reqCtx.HTTP.Protocol); ok {
		r.Proto, r.ProtoMajor, r.ProtoMinor = reqCtx.HTTP.Protocol, major, minor
	}
	return r, nil
}

// requestPath returns the event's path. Despite its name, RawPath is already decoded by an HTTP
// API, so it is not decoded again. A stage other than $default is the first segment, which is
// removed.
func requestPath(event *events.APIGatewayV2HTTPRequest) string {
	p := event.RawPath
	if p == "" {
		p = event.RequestContext.HTTP.Path
	}
	if stage := event.RequestContext.Stage; stage != "" && stage != "$default" {
		if rest, ok := strings.CutPrefix(p, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			p = rest
		}
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return p
}

// recorder is the handler's http.ResponseWriter. The gateway takes a response as a whole, so
// nothing is sent before the handler returns.
type recorder struct {
	header     http.Header
	status     int
	sentHeader http.Header // header at the time when the status was written
	body       bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	// The gateway cannot send informational statuses.
	if w.status == 0 && status >= 200 {
		w.status = status
		w.sentHeader = w.header.Clone()
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return w.body.Write(p)
}

// Flush exists for handlers that stream; it sends nothing.
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }

// response makes the event's response. Payload format 2.0 has one value for each header, so
// repeated values are joined by commas, and a separate field for cookies.
func (w *recorder) response(method string) events.APIGatewayV2HTTPResponse {
	w.WriteHeader(http.StatusOK)
	out := events.APIGatewayV2HTTPResponse{StatusCode: w.status, Headers: map[string]string{}, Cookies: []string{}}
	if w.body.Len() > 0 && w.sentHeader.Get("Content-Type") == "" {
		w.sentHeader.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
	}
	for name, values := range w.sentHeader {
		switch {
		case name == "Set-Cookie":
			out.Cookies = append(out.Cookies, values...)
		case name == "Content-Length" && method != http.MethodHead:
			// The gateway sets it.
		case len(values) > 0:
			out.Headers[name] = strings.Join(values, ", ")
		}
	}
	if method == http.MethodHead {
		return out
	}
	if isText(w.sentHeader) && utf8.Valid(w.body.Bytes()) && encodedBytes(w.body.Bytes()) <= maxBodyBytes {
		out.Body = w.body.String()
	} else if w.body.Len() > 0 {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body.Bytes()), true
	}
	if len(out.Body) > maxBodyBytes {
		return problem(http.StatusUnprocessableEntity, workflow.CodeLimit, fmt.Sprintf(
			"the answer has %d bytes, more than one answer can carry: ask for fewer items with the parameter limit, or for one item", w.body.Len()))
	}
	return out
}

// maxBodyBytes bounds the encoded body of a reply. Lambda accepts 6 MiB; the rest is for the
// headers. A client with a larger reply would only learn that something failed.
const maxBodyBytes = 6<<20 - 64<<10

// encodedBytes returns how many bytes a text takes as a JSON string.
func encodedBytes(text []byte) int {
	if 6*len(text) <= maxBodyBytes { // the longest escape of a byte has six bytes
		return len(text)
	}
	raw, err := workflow.EncodeJSON(string(text))
	if err != nil {
		return math.MaxInt
	}
	return len(raw)
}

// isText reports whether a body may be sent as a JSON string, without base64.
func isText(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return false
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return false
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-ndjson", "image/svg+xml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}
