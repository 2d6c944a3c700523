package emulator

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
)

// FunctionURLProxy serves a function URL whose host name does not resolve: it forwards
// requests to LocalStack on 127.0.0.1 with the function's host name in the Host header.
// rewrite, which may be nil, changes each request.
func (e *LocalStack) FunctionURLProxy(function string, rewrite func(*http.Request)) (http.Handler, error) {
	return NewFunctionURLProxy(function, "127.0.0.1:"+strconv.Itoa(e.port), rewrite)
}

// NewFunctionURLProxy is FunctionURLProxy for the LocalStack of another process, at the
// address host:port.
func NewFunctionURLProxy(function, address string, rewrite func(*http.Request)) (http.Handler, error) {
	target, err := url.Parse(function)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
			if rewrite != nil {
				rewrite(r.Out)
			}
		},
	}, nil
}
