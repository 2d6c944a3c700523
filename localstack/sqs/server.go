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

	"github.com/lockstep-run/lockstep/localstack/sqs/fault"
	"github.com/lockstep-run/lockstep/localstack/sqs/journal"
	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
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
	Faults fault.Faults
	// MaxInFlight bounds the messages of one queue that are received and not
	// deleted; 120,000 by default, as on AWS.
	MaxInFlight int
	// Region and Account appear in queue ARNs and URLs; us-east-1 and
	// 000000000000 by default.
	Region, Account string
}

// Server holds the queues. It is an http.Handler.
type Server struct {
	options Options
	boot    string // tells receipt handles of this process from those of an earlier one

	mu     sync.Mutex // guards all below, messages and queues included
	queues map[string]*queue.Queue
	key    uint64 // the last message's
	log    *journal.Log
	faults fault.Injector
	meter  Usage
	tasks  []wire.TaskResult // latest first
	closed bool
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
		options: options,
		boot:    strconv.FormatUint(rand.Uint64(), 36),
		queues:  map[string]*queue.Queue{},
		meter:   Usage{},
		// Sequence numbers must grow across restarts, and nothing that was
		// deleted is remembered: the clock is what grows by itself.
		key: uint64(options.Clock().UnixNano()),
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
		q.Dismiss()
	}
	return s.log.Close()
}

// call is one request on its way through an operation.
type call struct {
	ctx     context.Context
	base    string    // scheme and host by which the client reached us
	now     time.Time // read once, and again after a wait
	queue   string    // for the meter
	payload int       // bytes of messages in the request or its reply
}

// An operation decodes its request, takes the server's mutex and runs.
type operation func(*Server, *call, []byte) (any, error)

func serve[In, Out any](run func(*Server, *call, *In) (*Out, error)) operation {
	return func(s *Server, c *call, body []byte) (any, error) {
		in := new(In)
		if err := json.Unmarshal(body, in); err != nil {
			return nil, wire.Unreadable(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return nil, wire.Internal(errors.New("the server is shutting down"))
		}
		c.now = s.options.Clock()
		return run(s, c, in)
	}
}

var operations = map[string]operation{
	"SendMessage":                  serve((*Server).sendMessage),
	"SendMessageBatch":             serve((*Server).sendMessageBatch),
	"ReceiveMessage":               serve((*Server).receiveMessage),
	"DeleteMessage":                serve((*Server).deleteMessage),
	"DeleteMessageBatch":           serve((*Server).deleteMessageBatch),
	"ChangeMessageVisibility":      serve((*Server).changeVisibility),
	"ChangeMessageVisibilityBatch": serve((*Server).changeVisibilityBatch),
	"CreateQueue":                  serve((*Server).createQueue),
	"DeleteQueue":                  serve((*Server).deleteQueue),
	"GetQueueUrl":                  serve((*Server).getQueueURL),
	"ListQueues":                   serve((*Server).listQueues),
	"PurgeQueue":                   serve((*Server).purgeQueue),
	"GetQueueAttributes":           serve((*Server).getAttributes),
	"SetQueueAttributes":           serve((*Server).setAttributes),
	"TagQueue":                     serve((*Server).tagQueue),
	"UntagQueue":                   serve((*Server).untagQueue),
	"ListQueueTags":                serve((*Server).listTags),
	"ListDeadLetterSourceQueues":   serve((*Server).listSources),
	"StartMessageMoveTask":         serve((*Server).startMove),
	"ListMessageMoveTasks":         serve((*Server).listMoves),
	"CancelMessageMoveTask":        serve((*Server).cancelMove),
}

// maxRequest is a message of 1 MiB in the most wordy JSON, and its envelope.
const maxRequest = 8 << 20

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
	run, known := operations[name]
	if !known || r.Method != http.MethodPost {
		answer(w, nil, wire.UnknownOperation(target))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		answer(w, nil, wire.Unreadable(err))
		return
	}
	c := &call{ctx: r.Context(), base: "http://" + r.Host}
	reply, err := run(s, c, body)
	if s.account(name, c) {
		// The client sees its connection break, not knowing what was done.
		panic(http.ErrAbortHandler)
	}
	answer(w, reply, err)
}

// account counts a request and decides whether its reply is lost.
func (s *Server) account(operation string, c *call) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.add(c.queue, operation, c.payload)
	return s.faults.LosesReply(operation, c.queue)
}

// answer writes a reply or an error in the protocol's words.
func answer(w http.ResponseWriter, reply any, err error) {
	status := http.StatusOK
	if err != nil {
		var refused *wire.Error
		if !errors.As(err, &refused) {
			refused = wire.Internal(err)
		}
		status = refused.Status
		fault := "Receiver"
		if refused.SenderFault() {
			fault = "Sender"
		}
		w.Header().Set("X-Amzn-Query-Error", refused.Code+";"+fault)
		reply = map[string]string{"__type": refused.Type, "message": refused.Message}
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
