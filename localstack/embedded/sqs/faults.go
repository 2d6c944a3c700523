package sqs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"time"
)

// Faults are faults that SQS may produce, injected on request. The zero value injects none.
// Probabilities range from 0 to 1.
type Faults struct {
	// Seed makes the faults repeatable, as far as the order of requests is.
	Seed uint64 `json:"seed"`
	// Duplicate is the probability that a sent message is stored twice, under one
	// message id.
	Duplicate float64 `json:"duplicate"`
	// MaxDelayMillis is the most by which a message is delayed in addition to its
	// own delay, in milliseconds. Each copy of a duplicate gets its own delay.
	MaxDelayMillis int `json:"maxDelayMillis"`
	// Reorder is the probability that a delivery takes a random visible message
	// instead of the oldest.
	Reorder float64 `json:"reorder"`
	// DropReply maps an operation, or * for all others, to the probability that it
	// is performed and the client sees a broken connection.
	DropReply map[string]float64 `json:"dropReply,omitempty"`
	// Queues limits the faults to queues whose name matches one of these shell
	// patterns; none means every queue.
	Queues []string `json:"queues,omitempty"`
}

// FaultCounts is how often each fault occurred since the server started.
type FaultCounts struct {
	Duplicated int `json:"duplicated"`
	Delayed    int `json:"delayed"`
	Reordered  int `json:"reordered"`
	Dropped    int `json:"dropped"`
}

func (f *Faults) validate(known func(string) bool) error {
	probabilities := map[string]float64{"duplicate": f.Duplicate, "reorder": f.Reorder}
	for operation, p := range f.DropReply {
		if operation != "*" && !known(operation) {
			return fmt.Errorf("dropReply: unknown operation %q", operation)
		}
		probabilities["dropReply."+operation] = p
	}
	for name, p := range probabilities {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s: %v is not a probability from 0 to 1", name, p)
		}
	}
	if f.MaxDelayMillis < 0 || f.MaxDelayMillis > 900_000 {
		return fmt.Errorf("maxDelayMillis: %d is not between 0 and 900000", f.MaxDelayMillis)
	}
	for _, pattern := range f.Queues {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("queues: %q: %w", pattern, err)
		}
	}
	return nil
}

// faultInjector decides for each message whether a fault occurs. The server's mutex
// guards it.
type faultInjector struct {
	faults Faults
	counts FaultCounts
	random *rand.Rand
}

// set replaces the faults. The counts continue.
func (f *faultInjector) set(faults Faults, known func(operation string) bool) error {
	if err := faults.validate(known); err != nil {
		return err
	}
	f.faults = faults
	f.random = rand.New(rand.NewPCG(faults.Seed, 0))
	return nil
}

// appliesTo reports whether a queue has faults.
func (f *faultInjector) appliesTo(queue string) bool {
	return len(f.faults.Queues) == 0 || slices.ContainsFunc(f.faults.Queues, func(pattern string) bool {
		match, _ := path.Match(pattern, queue) // validate has checked the patterns
		return match
	})
}

// roll decides with probability p, and counts.
func (f *faultInjector) roll(queue string, p float64, count *int) bool {
	if p == 0 || !f.appliesTo(queue) || f.random.Float64() >= p {
		return false
	}
	*count++
	return true
}

// duplicate reports whether to store a sent message twice.
func (f *faultInjector) duplicate(queue string) bool {
	return f.roll(queue, f.faults.Duplicate, &f.counts.Duplicated)
}

// delay returns the extra delay of a message.
func (f *faultInjector) delay(queue string) time.Duration {
	if f.faults.MaxDelayMillis == 0 || !f.roll(queue, 1, &f.counts.Delayed) {
		return 0
	}
	return time.Duration(f.random.Int64N(int64(f.faults.MaxDelayMillis)*int64(time.Millisecond) + 1))
}

// pickNext returns the index, among n visible messages, of the next to deliver.
func (f *faultInjector) pickNext(queue string, n int) int {
	if n < 2 || !f.roll(queue, f.faults.Reorder, &f.counts.Reordered) {
		return 0
	}
	return f.random.IntN(n)
}

// dropReply reports whether to drop the reply of an operation on a queue.
func (f *faultInjector) dropReply(operation, queue string) bool {
	p, ok := f.faults.DropReply[operation]
	if !ok {
		p = f.faults.DropReply["*"]
	}
	return f.roll(queue, p, &f.counts.Dropped)
}

// SetFaults replaces the faults. Copies and delays of messages already sent stay.
func (s *Server) SetFaults(f Faults) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.set(f, func(operation string) bool { return operations[operation] != nil })
}

// FaultState returns the current faults and their counts.
func (s *Server) FaultState() (Faults, FaultCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.faults, s.faults.counts
}

// serveFaults serves /_faults: GET returns faults and counts, POST replaces the
// faults, so that {} ends them. SQS has no such address.
func (s *Server) serveFaults(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		var f Faults
		in := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		in.DisallowUnknownFields()
		err := in.Decode(&f)
		if err == nil {
			err = s.SetFaults(f)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
		return
	}
	faults, counts := s.FaultState()
	writeJSON(w, map[string]any{"faults": faults, "counts": counts})
}

// writeJSON replies on /_faults and /_meter.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // fails only if the client has gone
}
