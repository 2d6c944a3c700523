package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// call is one request to DynamoDB or SQS, as a proxy has seen it.
type call struct {
	Service  string // "dynamodb" or "sqs"
	Name     string // of the operation
	On       string // role of the table, or name of the queue, and what of it
	Begin    time.Time
	End      time.Time
	Read     float64   // units
	Write    float64   // units, those of indexes included
	Index    float64   // units of Write that are for indexes
	Refused  bool      // a condition has failed
	Message  string    // what was sent or received
	Receipts []receipt // of the messages that were received or deleted
}

// receipt is what names a message that was received, to delete it.
type receipt struct{ MessageId, ReceiptHandle string } //nolint:revive,staticcheck // the names are those of the service

// recorder records the requests that pass through it, while it is switched on. It knows nothing
// of how the product counts: the units are those that the services report in their answers.
type recorder struct {
	mu    sync.Mutex
	on    bool
	since time.Time // when it was switched on
	calls []call
	added chan struct{} // closed when a request is added
}

// start forgets what was recorded and begins to record.
func (r *recorder) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.since, r.calls, r.added = true, time.Now(), nil, make(chan struct{})
}

// waitFor waits for requests of which match is true.
func (r *recorder) waitFor(ctx context.Context, match func([]call) bool) error {
	for {
		r.mu.Lock()
		found, added := match(r.calls), r.added
		r.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-added:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop returns what was recorded, in the order in which it began.
func (r *recorder) stop() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	slices.SortStableFunc(r.calls, func(a, b call) int { return a.Begin.Compare(b.Begin) })
	return r.calls
}

// wrap records the requests that a service answers. A poll that waits when the recorder is switched on
// counts from then on.
func (r *recorder) wrap(service string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		_, name, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		c := call{Service: service, Name: name, Begin: time.Now()}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, req)
		c.End = time.Now()
		if service == "dynamodb" {
			c.readDynamoDB(body, answer.Body.Bytes(), answer.Code)
		} else {
			c.readSQS(body, answer.Body.Bytes())
		}
		r.add(c)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client has gone
	})
}

// add records a request, if the recorder is on.
func (r *recorder) add(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return
	}
	if c.Begin.Before(r.since) {
		c.Begin = r.since
	}
	r.calls = append(r.calls, c)
	close(r.added)
	r.added = make(chan struct{})
}

// capacity is what an answer of DynamoDB says of its consumption.
type capacity struct {
	TableName              string
	CapacityUnits          float64
	GlobalSecondaryIndexes map[string]struct{ CapacityUnits float64 }
}

type attribute struct{ S, N string }

func (c *call) readDynamoDB(body, answer []byte, status int) {
	var in struct {
		TableName, IndexName      string
		Key, Item                 map[string]attribute
		ExpressionAttributeValues map[string]attribute
		RequestItems              map[string]struct{ Keys []map[string]attribute }
	}
	var out struct {
		Type             string `json:"__type"`
		ConsumedCapacity json.RawMessage
		Item             map[string]attribute
	}
	_ = json.Unmarshal(body, &in) // both are as an SDK and a service write them
	_ = json.Unmarshal(answer, &out)
	var used []capacity
	var one capacity
	if json.Unmarshal(out.ConsumedCapacity, &used) != nil && json.Unmarshal(out.ConsumedCapacity, &one) == nil {
		used = []capacity{one}
	}
	for _, u := range used {
		if c.Name == "PutItem" || c.Name == "UpdateItem" {
			c.Write += u.CapacityUnits
			for _, index := range u.GlobalSecondaryIndexes {
				c.Index += index.CapacityUnits
			}
		} else {
			c.Read += u.CapacityUnits
		}
	}
	c.Refused = status != http.StatusOK
	table := in.TableName
	key := cmp.Or(in.Key["pk"].S, in.Item["pk"].S) + " " + cmp.Or(in.Key["sk"].S, in.Item["sk"].S)
	for name, keys := range in.RequestItems {
		table, key = name, ""
		for _, k := range keys.Keys {
			if key += k["pk"].S + " " + k["sk"].S + ", "; len(key) > 120 {
				key += fmt.Sprintf("(%d in all), ", len(keys.Keys))
				break
			}
		}
	}
	if c.Name == "Query" {
		key = in.IndexName
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range in.ExpressionAttributeValues {
				if !yield(name) {
					return
				}
			}
		}) {
			key += " " + name + "=" + in.ExpressionAttributeValues[name].S + in.ExpressionAttributeValues[name].N
		}
	}
	for _, role := range topology.Tables {
		if strings.HasSuffix(table, role) {
			table = role
		}
	}
	c.On = table + " " + strings.TrimSuffix(key, ", ")
	if c.Name == "PutItem" || c.Name == "UpdateItem" {
		for _, values := range []map[string]attribute{in.Item, in.ExpressionAttributeValues} {
			for _, name := range []string{"state", ":set_state"} {
				c.On += " " + values[name].S
			}
		}
	}
}

func (c *call) readSQS(body, answer []byte) {
	var in struct {
		QueueUrl string //nolint:revive,staticcheck // the name is that of the service
		Entries  []struct {
			MessageBody string
			receipt
		}
	}
	var out struct {
		Messages []struct {
			Body string
			receipt
		}
	}
	_ = json.Unmarshal(body, &in)
	_ = json.Unmarshal(answer, &out)
	c.On = in.QueueUrl[strings.LastIndexByte(in.QueueUrl, '/')+1:]
	var all []string
	for _, e := range in.Entries {
		all = append(all, e.MessageBody)
		c.Receipts = append(c.Receipts, e.receipt)
	}
	for _, m := range out.Messages {
		all = append(all, m.Body)
		c.Receipts = append(c.Receipts, m.receipt)
	}
	c.Message = strings.Join(all, " | ")
}

// isPoll reports whether a request has received nothing, or is none of an execution.
func (c *call) isPoll() bool {
	return c.Name == "ReceiveMessage" && c.Message == "" || c.Service == "dynamodb" && strings.Contains(c.On, "due")
}

// ends reports whether a request has written the end of an execution.
func (c *call) ends(id string) bool {
	return c.Name == "UpdateItem" && !c.Refused && strings.Contains(c.On, id+" state") && strings.HasSuffix(c.On, "_ACK")
}

// sequential is how many of the requests are made one after the other at most: each begins when the
// one before has ended, or an overlap earlier, since a message may arrive before its sender has its reply.
// What Lambda receives and deletes is not among them.
func sequential(calls []call, overlap time.Duration, services ...string) int {
	var all []call
	for _, c := range calls {
		if slices.Contains(services, c.Service) && !c.isPoll() && c.Name != "ReceiveMessage" && c.Name != "DeleteMessageBatch" {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b call) int { return a.End.Compare(b.End) })
	n, end := 0, time.Time{}
	for _, c := range all {
		if !c.Begin.Before(end.Add(-overlap)) {
			n, end = n+1, c.End
		}
	}
	return n
}

// benchCalls prints what one execution over one device asks of DynamoDB and SQS, after some that
// do not count.
func (s *stack) benchCalls(ctx context.Context, out io.Writer, p *proxiedServices) error {
	if _, _, err := s.runSingle(ctx, 3, 1); err != nil {
		return err
	}
	p.recorder.start()
	_, _, err := s.runSingle(ctx, 1, 1)
	if err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond) // for the requests that follow the end
	calls := slices.DeleteFunc(p.recorder.stop(), func(c call) bool { return c.isPoll() })
	if len(calls) == 0 {
		return fmt.Errorf("no request was recorded")
	}
	begin := calls[0].Begin
	ms := func(t time.Time) float64 { return float64(t.Sub(begin).Microseconds()) / 1000 }
	for i, c := range calls {
		refused := ""
		if c.Refused {
			refused = " refused"
		}
		message := c.Message
		if len(message) > 100 {
			message = message[:100]
		}
		fmt.Fprintf(out, "%2d %7.1f-%7.1f %-22s R %.1f W %.1f (index %.1f) %s%s %s\n", i+1, ms(c.Begin), ms(c.End), c.Name, c.Read, c.Write, c.Index, c.On, refused, message)
	}
	return nil
}
