package lambdahttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// newRequest makes the request that a server on this side of the gateway would
// have seen. Nothing but a body that is no base64 or a method that is none can
// make it fail; every field of the event may be missing.
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
		return nil, errors.New("the method is not valid")
	}
	r.URL = &url.URL{Path: requestPath(event), RawQuery: event.RawQueryString}
	r.RequestURI = r.URL.RequestURI()
	if len(body) == 0 {
		r.Body, r.GetBody = io.NopCloser(http.NoBody), nil
	}
	for name, value := range event.Headers {
		// Values of a header sent twice arrive joined by commas, which means the
		// same in HTTP.
		r.Header.Set(name, value)
	}
	// The request has an id in the gateway's own log already: one name for it is enough.
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

// requestPath is the event's path. Although it is called raw, an HTTP API has already
// decoded it; it is not decoded again. A stage other than $default is its first
// segment and no part of the API.
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
