// Package sdkhttp mends a race between AWS's SDK and net/http, in which the reply to a request is
// lost, and keeps the paths of requests out of errors, because that of the local queues is a secret.
//
// The SDK closes the body of a request as soon as the head of the reply is there. If the goroutine
// that has just sent the body has not looked for its end by then, the body's WriteTo returns
// io.EOF. net/http takes that for a body that cannot be read, and closes the connection under the
// reply. The SDK repeats the request without a word. Messages that the lost reply contained stay
// invisible until their time-out, and a commit that is repeated has lost the executions to wake.
// It happens where replies come fast or the processor is busy.
package sdkhttp

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Wrap returns a client that sends requests by next without the race. Its errors have no paths.
func Wrap(next aws.HTTPClient) aws.HTTPClient { return client{next} }

type client struct{ next aws.HTTPClient }

func (c client) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = body{r.Body, r.Body}
	}
	reply, err := c.next.Do(r)
	var failed *url.Error
	if errors.As(err, &failed) {
		failed.URL = r.URL.Host
	}
	return reply, err
}

// body hides WriteTo. A read of a closed body ends it, as it should.
type body struct {
	io.Reader
	io.Closer
}
