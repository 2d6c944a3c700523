package emulator

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
)

// FunctionURLProxy serves a function URL under an address that everybody can call: requests go
// to LocalStack, whose host is 127.0.0.1, under the host name of the function, which
// nobody resolves. pass, which may be nil, changes each request on its way.
func (e *LocalStack) FunctionURLProxy(function string, rewrite func(*http.Request)) (http.Handler, error) {
	return NewFunctionURLProxy(function, "127.0.0.1:"+strconv.Itoa(e.port), rewrite)
}

// NewFunctionURLProxy does so for a LocalStack that another process has started, at host:port.
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
			r.SetURL(target) // and with it the Host header
			r.Out.Host = target.Host
			if rewrite != nil {
				rewrite(r.Out)
			}
		},
	}, nil
}
