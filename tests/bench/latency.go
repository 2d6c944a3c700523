package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

// proxiedServices are a DynamoDB and an SQS that answer each request after a time, as those of AWS
// do.
type proxiedServices struct {
	latency map[string]*atomic.Int64 // by service, in nanoseconds
	tables  *dynamodb.Process
	queues  *sqs.Server
	servers []*http.Server
	env     []string // tells a local stack to use them

	recorder recorder
}

// startProxied starts them beside the program lockstep, without a delay at first.
func startProxied(ctx context.Context, binary string) (d *proxiedServices, err error) {
	d = &proxiedServices{latency: map[string]*atomic.Int64{"dynamodb": {}, "sqs": {}}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.tables, err = dynamodb.Start(ctx, dynamodb.Options{Binary: filepath.Join(filepath.Dir(binary), "dynoxide")}); err != nil {
		return d, err
	}
	if d.queues, err = sqs.New(sqs.Options{AutoCreate: func(name string) (map[string]string, bool) {
		return map[string]string{"VisibilityTimeout": "60"}, strings.HasPrefix(name, "lockstep-")
	}}); err != nil {
		return d, err
	}
	target, err := url.Parse(d.tables.Endpoint())
	if err != nil {
		return d, err
	}
	tables := httputil.NewSingleHostReverseProxy(target)
	tables.Transport = &http.Transport{MaxIdleConnsPerHost: 100}
	for variable, service := range map[string]http.Handler{"AWS_ENDPOINT_URL_DYNAMODB": tables, "AWS_ENDPOINT_URL_SQS": d.queues} {
		name := map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": "dynamodb", "AWS_ENDPOINT_URL_SQS": "sqs"}[variable]
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return d, err
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: d.recorder.wrap(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Duration(d.latency[name].Load()))
			service.ServeHTTP(w, r)
		}))}
		d.servers = append(d.servers, server)
		d.env = append(d.env, variable+"=http://"+listener.Addr().String())
		go func() { _ = server.Serve(listener) }() // ends with Close
	}
	return d, nil
}

// delay sets how much longer each request takes.
func (d *proxiedServices) delay(dynamodb, sqs time.Duration) {
	d.latency["dynamodb"].Store(int64(dynamodb))
	d.latency["sqs"].Store(int64(sqs))
}

func (d *proxiedServices) close() {
	for _, s := range d.servers {
		_ = s.Close()
	}
	if d.queues != nil {
		_ = d.queues.Close()
	}
	if d.tables != nil {
		_ = d.tables.Stop()
	}
}

// roundTripExecutions is over how many executions the round trips of one are counted.
const roundTripExecutions = 40

// benchRoundTrips prints how many requests to AWS an execution over one device makes one after the
// other, from its creation to its end: by how much longer it takes for how much of delay.
func (s *stack) benchRoundTrips(ctx context.Context, out io.Writer, d *proxiedServices, latency time.Duration) error {
	d.delay(0, 0)
	fast, err := s.singleMedian(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		figure        string
		dynamodb, sqs time.Duration
	}{{"single_round_trips_dynamodb", latency, 0}, {"single_round_trips_sqs", 0, latency}, {"single_round_trips", latency, latency}} {
		d.delay(c.dynamodb, c.sqs)
		slow, err := s.singleMedian(ctx)
		if err != nil {
			return err
		}
		printFigure(out, c.figure, float64(slow-fast)/float64(latency), "requests")
	}
	return nil
}

// singleMedian executes single executions one after the other, and returns the median of how long
// they take. The first ones, which find cold functions, do not count.
func (s *stack) singleMedian(ctx context.Context) (time.Duration, error) {
	if _, _, err := s.runSingle(ctx, roundTripExecutions/4, 1); err != nil {
		return 0, err
	}
	_, durations, err := s.runSingle(ctx, roundTripExecutions, 1)
	if err != nil {
		return 0, fmt.Errorf("count round trips: %w", err)
	}
	return durations[len(durations)/2], nil
}
