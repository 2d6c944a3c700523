package lambdahttp

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// recorder is the http.ResponseWriter a handler sees. The gateway takes a reply
// as a whole, so nothing is sent before the handler returns.
type recorder struct {
	header     http.Header
	status     int
	sentHeader http.Header // the header as it was when the status was written
	body       bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	// Informational statuses have no way through the gateway.
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

// Flush lets handlers that stream work; what they flush waits all the same.
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }

// response is the event's answer. Values of one header are joined by commas and
// cookies have a field of their own: that is all that format 2.0 knows.
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
			// The gateway counts for itself what it sends.
		case len(values) > 0:
			out.Headers[name] = strings.Join(values, ", ")
		}
	}
	if method == http.MethodHead {
		return out
	}
	if isText(w.sentHeader) && utf8.Valid(w.body.Bytes()) {
		out.Body = w.body.String()
	} else if w.body.Len() > 0 {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body.Bytes()), true
	}
	return out
}

// isText reports whether a body may travel as it is inside a JSON string.
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
