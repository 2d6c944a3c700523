// Package sqs is the part of Amazon SQS that the product and its tests call, inside
// one process: an http.Handler that the AWS SDK talks to as it talks to the service.
// It accepts only AWS JSON 1.0, checks no signature, and is meant for a loopback
// address.
//
// Where the service leaves a choice, the server takes the harsher one: only the
// latest receipt handle deletes a message (another one is not an error), and a
// message goes to its dead-letter queue at the moment its last visibility timeout
// ends. Not implemented: FIFO queues, listing, tagging and purging queues, message
// move tasks, permissions, encryption, and the 60 seconds between deleting and
// creating a queue of the same name.
//
//   - server.go: options, the table of operations, one request from HTTP to reply.
//     One mutex guards everything; an operation holds it for microseconds.
//   - queues.go, attributes.go: create, find and delete queues; their attributes.
//   - send.go, receive.go, receipts.go: send; receive and long polls; delete and
//     change of visibility.
//   - queue.go, message.go: the state of a queue and of a message. redrive.go moves
//     messages to dead-letter queues.
//   - wal.go, walrecords.go: the write-ahead log, so that an acknowledged message
//     survives kill -9 of the process.
//   - faults.go: duplicates, delays, reordering and lost replies for tests, at
//     /_faults. meter.go: requests counted as AWS bills them, at /_meter.
package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options configure a server. The zero value is a server in memory without faults.
type Options struct {
	// Clock returns the time; time.Now by default. Timers use the machine's clock:
	// with another Clock, operations see its time but long polls do not wake by it.
	Clock func() time.Time
	// Dir keeps queues and messages across restarts. It is created if missing and
	// belongs to one server at a time. "" keeps nothing.
	Dir string
	// AutoCreate is called when GetQueueUrl or a send names a queue that does not
	// exist, and for the dead-letter queue named in the attributes it returns. It
	// must not call the server.
	AutoCreate func(name string) (attributes map[string]string, ok bool)
	// Faults at the start; see [Server.SetFaults].
	Faults Faults
	// MaxInFlight is the most messages of one queue that are in flight (received and not deleted);
	// 120,000 by default, as on AWS.
	MaxInFlight int
	// Region and Account appear in queue ARNs and URLs; us-east-1 and
	// 000000000000 by default.
	Region, Account string
	// Path is what the paths of all requests begin with, such as "/secret". Others are answered with 404.
	// URLs of queues have it, too.
	Path string
}

// Server holds the queues. It is an http.Handler.
type Server struct {
	options    Options
	instanceID string // in receipt handles; those of an earlier process are void

	mu      sync.Mutex // guards everything below, queues and messages included
	queues  map[string]*queue
	lastKey uint64 // key of the last message sent
	wal     *wal
	faults  faultInjector
	usage   Usage
	closed  bool
}

// New creates a server and loads what its directory holds.
func New(options Options) (*Server, error) {
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.MaxInFlight == 0 {
		options.MaxInFlight = 120_000
	}
	if options.Region == "" {
		options.Region = "us-east-1"
	}
	if options.Account == "" {
		options.Account = "000000000000"
	}
	s := &Server{
		options:    options,
		instanceID: strconv.FormatUint(rand.Uint64(), 36),
		queues:     map[string]*queue{},
		usage:      Usage{},
		// Keys must grow across restarts. Deleted messages leave no trace, so the clock is the
		// lower bound.
		lastKey: uint64(options.Clock().UnixNano()),
	}
	if err := s.SetFaults(options.Faults); err != nil {
		return nil, err
	}
	if options.Dir != "" {
		if err := s.load(options.Dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close ends all long polls with an empty reply and releases the directory. Later
// requests fail. Call it before http.Server.Shutdown, which would wait for the
// polls.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, q := range s.queues {
		q.stop()
	}
	return s.wal.Close()
}

// call is one request on its way through an operation.
type call struct {
	ctx          context.Context
	baseURL      string    // scheme and host that the client used, and the path of the server
	now          time.Time // read once, and again after a wait
	queueName    string    // for the meter
	payloadBytes int       // bytes of the messages in the request or its reply
}

// operation decodes a request, locks the server and performs it.
type operation func(*Server, *call, []byte) (any, error)

func newOperation[In, Out any](perform func(*Server, *call, *In) (*Out, error)) operation {
	return func(s *Server, c *call, body []byte) (any, error) {
		in := new(In)
		if err := json.Unmarshal(body, in); err != nil {
			return nil, serializationError(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return nil, internalError(errors.New("the server is shutting down"))
		}
		c.now = s.options.Clock()
		return perform(s, c, in)
	}
}

var operations = map[string]operation{
	"SendMessage":                  newOperation((*Server).sendMessage),
	"SendMessageBatch":             newOperation((*Server).sendMessageBatch),
	"ReceiveMessage":               newOperation((*Server).receiveMessage),
	"DeleteMessage":                newOperation((*Server).deleteMessage),
	"DeleteMessageBatch":           newOperation((*Server).deleteMessageBatch),
	"ChangeMessageVisibility":      newOperation((*Server).changeMessageVisibility),
	"ChangeMessageVisibilityBatch": newOperation((*Server).changeMessageVisibilityBatch),
	"CreateQueue":                  newOperation((*Server).createQueue),
	"DeleteQueue":                  newOperation((*Server).deleteQueue),
	"GetQueueUrl":                  newOperation((*Server).getQueueURL),
	"GetQueueAttributes":           newOperation((*Server).getQueueAttributes),
	"SetQueueAttributes":           newOperation((*Server).setQueueAttributes),
}

// maxRequestBytes holds a batch of 1 MiB in the most verbose JSON encoding.
const maxRequestBytes = 8 << 20

// ServeHTTP serves SQS requests at any path below [Options.Path] except /_faults and /_meter.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, s.options.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	switch path {
	case "/_faults":
		s.serveFaults(w, r)
		return
	case "/_meter":
		s.serveMeter(w, r)
		return
	}
	target := r.Header.Get("X-Amz-Target")
	name, _ := strings.CutPrefix(target, "AmazonSQS.")
	perform, known := operations[name]
	if !known || r.Method != http.MethodPost {
		writeReply(w, nil, unknownOperation(target))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		writeReply(w, nil, serializationError(err))
		return
	}
	c := &call{ctx: r.Context(), baseURL: "http://" + r.Host + s.options.Path}
	reply, err := perform(s, c, body)
	if s.recordUsage(name, c) {
		// The client sees a broken connection and cannot know whether the operation was performed.
		panic(http.ErrAbortHandler)
	}
	writeReply(w, reply, err)
}

// recordUsage counts a request and reports whether a fault drops its reply.
func (s *Server) recordUsage(operation string, c *call) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.add(c.queueName, operation, c.payloadBytes)
	return s.faults.dropReply(operation, c.queueName)
}

// writeReply writes a reply or an error as AWS JSON 1.0.
func writeReply(w http.ResponseWriter, reply any, err error) {
	status := http.StatusOK
	if err != nil {
		var apiErr *apiError
		if !errors.As(err, &apiErr) {
			apiErr = internalError(err)
		}
		status = apiErr.Status
		fault := "Receiver"
		if apiErr.isSenderFault() {
			fault = "Sender"
		}
		w.Header().Set("X-Amzn-Query-Error", apiErr.Code+";"+fault)
		reply = map[string]string{"__type": apiErr.Type, "message": apiErr.Message}
	}
	body, err := json.Marshal(reply)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has gone
}
