// Command bootstrap is a function for the tests of package lambdahost. Its event tells it what to
// do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

type request struct {
	Do      string              `json:"do"`
	Text    string              `json:"text"`
	Size    int                 `json:"size"`
	Records []events.SQSMessage `json:"Records"`
}

var served int

func main() {
	start()
	lambda.Start(handle)
}

// start fails in the way that START says.
func start() {
	switch os.Getenv("START") {
	case "exit":
		os.Exit(3)
	case "hang":
		time.Sleep(time.Hour)
	case "error":
		url := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/init/error"
		body := strings.NewReader(`{"errorType":"Config.Missing","errorMessage":"no table","stackTrace":[]}`)
		if r, err := http.Post(url, "application/json", body); err == nil {
			r.Body.Close()
		}
		os.Exit(1)
	case "second": // the first process exits, the others work
		f, err := os.OpenFile(os.Getenv("MARK"), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			f.Close()
			os.Exit(4)
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
}

func handle(ctx context.Context, r request) (any, error) {
	served++
	if r.Records != nil {
		return batch(r.Records)
	}
	switch r.Do {
	case "error":
		return nil, errors.New("it went wrong: " + r.Text)
	case "panic":
		panic("it went very wrong")
	case "exit":
		os.Exit(7)
	case "wait": // until a file appears, or the deadline kills the process
		os.WriteFile(r.Text+".begun", nil, 0o600)
		for {
			if _, err := os.Stat(r.Text); err == nil {
				return map[string]any{"pid": os.Getpid()}, nil
			}
			time.Sleep(2 * time.Millisecond)
		}
	case "about":
		c, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		return map[string]any{
			"env": os.Environ(), "request": c.AwsRequestID, "arn": c.InvokedFunctionArn,
			"remainingMillis": time.Until(deadline).Milliseconds(), "pid": os.Getpid(), "served": served,
			"trace": os.Getenv("_X_AMZN_TRACE_ID"),
		}, nil
	case "large":
		return strings.Repeat("x", r.Size), nil
	case "print":
		os.Stdout.WriteString(r.Text)
	}
	return map[string]any{"text": r.Text, "pid": os.Getpid()}, nil
}

// batch fails the records whose body is fail; a body of "reply X" is the whole reply.
func batch(records []events.SQSMessage) (any, error) {
	var out events.SQSEventResponse
	for _, r := range records {
		if reply, ok := strings.CutPrefix(r.Body, "reply "); ok {
			return json.RawMessage(reply), nil
		}
		switch r.Body {
		case "fail":
			out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
		case "error":
			return nil, errors.New("bad batch")
		}
	}
	return out, nil // without a failure the list is null
}
