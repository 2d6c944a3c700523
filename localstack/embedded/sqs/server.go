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

// Options of a server; the zero value is a server in memory, without faults.
type Options struct {
	// Clock tells the time; time.Now by default. Timers run on the machine's
	// clock all the same, so with another Clock a long poll does not notice
	// that time has passed, but every operation does.
	Clock func() time.Time
	// Dir keeps queues and messages across restarts. It is made if need be and
	// belongs to one server at a time. "" keeps nothing.
	Dir string
	// AutoCreate is asked when GetQueueUrl or a send names a queue that does
	// not exist, and for the dead-letter queue that its answer may name. It
	// must not call the server.
	AutoCreate func(name string) (attributes map[string]string, ok bool)
	// Faults to begin with; see [Server.SetFaults].
	Faults Faults
	// MaxInFlight bounds the messages of one queue that are received and not
	// deleted; 120,000 by default, as on AWS.
	MaxInFlight int
	// Region and Account appear in queue ARNs and URLs; us-east-1 and
	// 000000000000 by default.
	Region, Account string
}

// Server holds the queues. It is an http.Handler.
type Server struct {
	options    Options
	instanceID string // tells receipt handles of this process from those of an earlier one

	mu        sync.Mutex // guards all below, messages and queues included
	queues    map[string]*queue
	lastKey   uint64 // the last message's
	wal       *wal
	faults    faultInjector
	usage     Usage
	moveTasks []moveTaskResult // latest first
	closed    bool
}

// New makes a server and loads what its directory holds.
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
		// Sequence numbers must grow across restarts, and nothing that was
		// deleted is remembered: the clock is what grows by itself.
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

// Close ends all long polls with an empty answer and gives the directory free.
// Requests after it are refused. Call it before http.Server.Shutdown, which
// would wait for the polls.
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
	baseURL      string    // scheme and host by which the client reached us
	now          time.Time // read once, and again after a wait
	queueName    string    // for the meter
	payloadBytes int       // bytes of messages in the request or its reply
}

// An operation decodes its request, takes the server's mutex and runs.
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
	"ListQueues":                   newOperation((*Server).listQueues),
	"PurgeQueue":                   newOperation((*Server).purgeQueue),
	"GetQueueAttributes":           newOperation((*Server).getQueueAttributes),
	"SetQueueAttributes":           newOperation((*Server).setQueueAttributes),
	"TagQueue":                     newOperation((*Server).tagQueue),
	"UntagQueue":                   newOperation((*Server).untagQueue),
	"ListQueueTags":                newOperation((*Server).listQueueTags),
	"ListDeadLetterSourceQueues":   newOperation((*Server).listDeadLetterSourceQueues),
	"StartMessageMoveTask":         newOperation((*Server).startMessageMoveTask),
	"ListMessageMoveTasks":         newOperation((*Server).listMessageMoveTasks),
	"CancelMessageMoveTask":        newOperation((*Server).cancelMessageMoveTask),
}

// maxRequestBytes is a message of 1 MiB in the most wordy JSON, and its envelope.
const maxRequestBytes = 8 << 20

// ServeHTTP answers SQS requests at any path, and the two local addresses.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
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
	c := &call{ctx: r.Context(), baseURL: "http://" + r.Host}
	reply, err := perform(s, c, body)
	if s.recordUsage(name, c) {
		// The client sees its connection break, not knowing what was done.
		panic(http.ErrAbortHandler)
	}
	writeReply(w, reply, err)
}

// recordUsage counts a request and decides whether its reply is lost.
func (s *Server) recordUsage(operation string, c *call) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.add(c.queueName, operation, c.payloadBytes)
	return s.faults.dropReply(operation, c.queueName)
}

// writeReply writes a reply or an error in the protocol's words.
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
	_, _ = w.Write(body) // a client that has gone away needs no answer
}
