package client

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// transport adds the caller's headers and retries.
type transport struct{ opt Options }

// do sends a request, and retries it if that is safe and can help.
func (t *transport) do(r *http.Request, retries int) (*http.Response, error) {
	for name, values := range t.opt.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if t.opt.Tenant != "" {
		r.Header.Set("X-Tenant", t.opt.Tenant)
	}
	if t.opt.Actor != "" {
		r.Header.Set("X-Actor", t.opt.Actor)
	}
	if t.opt.Roles != "" {
		r.Header.Set("X-Roles", t.opt.Roles)
	}
	backoff := t.opt.Backoff
	for retriesLeft := retries; ; retriesLeft-- {
		res, err := t.opt.HTTP.Do(r)
		if retriesLeft <= 0 || !isRepeatable(r) || !isTransient(res, err) || retryAfter(res) > maxBackoff {
			return res, wrapUnreachable(r, err)
		}
		if res != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // so that the connection is reused
			_ = res.Body.Close()
		}
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		pause := backoff - time.Duration(t.opt.Jitter()*float64(backoff)/2)
		if err := t.opt.Sleep(r.Context(), max(pause, retryAfter(res))); err != nil {
			return nil, err
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// maxBackoff is the longest pause before a retry.
const maxBackoff = 10 * time.Second

// retryAfter returns how long a response asks to wait before the next request; 0 if it does not say
// so in seconds.
func retryAfter(res *http.Response) time.Duration {
	if res == nil {
		return 0
	}
	seconds, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return max(0, time.Duration(seconds)*time.Second)
}

// isRepeatable reports whether sending the request twice is harmless: it reads, replaces, stores
// something once under its own name, is a poll with an id of its own, answers by token (which is
// the same for the same input), or has an idempotency key.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut:
		return true
	case http.MethodPost:
		for _, end := range []string{"/workflow-definition/publish", "/function-blocks/register", "/blackboard/job", "/answers"} {
			if strings.HasSuffix(r.URL.Path, end) {
				return true
			}
		}
		return r.Header.Get("Idempotency-Key") != ""
	}
	return false
}

// isTransient reports whether an error or an answer is transient.
func isTransient(res *http.Response, err error) bool {
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// UnreachableError is the error of a request that could not be sent or got no response.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string { return "cannot reach " + e.URL + ": " + e.Err.Error() }

// Unwrap returns the network's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

func wrapUnreachable(r *http.Request, err error) error {
	if err == nil || r.Context().Err() != nil {
		return err
	}
	if coded := (*workflow.Error)(nil); errors.As(err, &coded) {
		return coded // the request was not authorised, and not sent
	}
	var urlErr *url.Error // its text would repeat the URL
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	return &UnreachableError{URL: origin(r.URL), Err: err}
}
