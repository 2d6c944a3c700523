package gateway

import (
	"encoding/base64"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// requestTimeFormat is the format of requestContext.time, that of web server logs.
const requestTimeFormat = "02/Jan/2006:15:04:05 -0700"

const defaultStage = "$default"

// event returns the request in payload format 2.0.
//
// In spite of its name, rawPath is percent-decoded: an encoded slash becomes a separator.
// rawQueryString stays as it was sent.
func (g *handler) event(r *http.Request, body []byte, id string) events.APIGatewayV2HTTPRequest {
	now := g.opts.Now().UTC()
	source := r.RemoteAddr
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		source = host
	}
	domain := r.Host
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		domain = host
	}
	prefix, _, _ := strings.Cut(domain, ".")
	e := events.APIGatewayV2HTTPRequest{
		Version:               "2.0",
		RouteKey:              defaultStage,
		RawPath:               r.URL.Path,
		RawQueryString:        r.URL.RawQuery,
		Cookies:               cookies(r.Header),
		Headers:               headers(r, source),
		QueryStringParameters: queryParameters(r.URL.RawQuery),
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey:     defaultStage,
			AccountID:    g.opts.Account,
			Stage:        defaultStage,
			RequestID:    id,
			APIID:        g.opts.APIID,
			DomainName:   domain,
			DomainPrefix: prefix,
			Time:         now.Format(requestTimeFormat),
			TimeEpoch:    now.UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: r.Method, Path: r.URL.Path, Protocol: r.Proto,
				SourceIP: source, UserAgent: r.UserAgent(),
			},
		},
	}
	if e.RawPath == "" {
		e.RawPath, e.RequestContext.HTTP.Path = "/", "/"
	}
	switch {
	case len(body) == 0:
	case isText(r.Header) && utf8.Valid(body):
		e.Body = string(body)
	default:
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e
}

// headers returns the headers with lower-case names and values joined by commas, plus
// the headers about the client that API Gateway adds. Cookies have a separate field.
func headers(r *http.Request, source string) map[string]string {
	out := make(map[string]string, len(r.Header)+4)
	for name, values := range r.Header {
		if name != "Cookie" {
			out[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	out["host"] = r.Host
	if forwardedFor := out["x-forwarded-for"]; forwardedFor != "" {
		source = forwardedFor + ", " + source
	}
	out["x-forwarded-for"] = source
	out["x-forwarded-proto"] = "http"
	if r.TLS != nil {
		out["x-forwarded-proto"] = "https"
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		out["x-forwarded-port"] = port
	}
	return out
}

func cookies(h http.Header) []string {
	var out []string
	for _, line := range h.Values("Cookie") {
		for _, c := range strings.Split(line, ";") {
			if c = strings.TrimSpace(c); c != "" {
				out = append(out, c)
			}
		}
	}
	return out
}

// queryParameters returns the decoded query parameters, values of the same name joined
// by commas in the order in which they were sent. Pairs that cannot be decoded are only
// in rawQueryString.
func queryParameters(query string) map[string]string {
	values, _ := url.ParseQuery(query)
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for name, v := range values {
		out[name] = strings.Join(v, ",")
	}
	return out
}

// isText reports whether API Gateway passes a body on unchanged. It encodes every other body as
// base64, including forms.
func isText(h http.Header) bool {
	if h.Get("Content-Encoding") != "" {
		return false
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return false
	}
	switch kind {
	case "application/json", "application/javascript", "application/xml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}
