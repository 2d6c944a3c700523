package sqs

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"
)

// Faults are the misfortunes that a user of SQS must bear, at will. The zero
// value is none. Probabilities run from 0 to 1. They concern standard queues;
// of these, delays and lost replies concern FIFO queues as well, because the
// service promises those neither twice nor out of order.
type Faults struct {
	// Seed makes the choices repeatable, as far as the requests' order is.
	Seed uint64 `json:"seed"`
	// Duplicate is the probability that a sent message is in the queue twice,
	// under one message id.
	Duplicate float64 `json:"duplicate"`
	// MaxDelayMillis delays every message by a random time up to it, besides
	// its own delay. Each copy of a duplicate has its own.
	MaxDelayMillis int `json:"maxDelayMillis"`
	// Reorder is the probability that a delivery takes any visible message
	// instead of the oldest.
	Reorder float64 `json:"reorder"`
	// DropReply maps an operation, or * for all others, to the probability that
	// it is performed and its client sees the connection break.
	DropReply map[string]float64 `json:"dropReply,omitempty"`
	// Queues limits all this to queues whose name matches one of these shell
	// patterns; none means every queue.
	Queues []string `json:"queues,omitempty"`
}

// FaultCounts tells how often each fault has struck since the server started.
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

// faultInjector decides, message by message, whether a misfortune strikes. Its owner
// guards it against use by two goroutines at once.
type faultInjector struct {
	faults Faults
	counts FaultCounts
	random *rand.Rand
}

// set replaces the faults from now on. The counts go on.
func (f *faultInjector) set(faults Faults, known func(operation string) bool) error {
	if err := faults.validate(known); err != nil {
		return err
	}
	f.faults = faults
	f.random = rand.New(rand.NewPCG(faults.Seed, 0))
	return nil
}

// state returns the faults in force and what they have done so far.
func (f *faultInjector) state() (Faults, FaultCounts) { return f.faults, f.counts }

// appliesTo tells whether faults strike a queue.
func (f *faultInjector) appliesTo(queue string) bool {
	return len(f.faults.Queues) == 0 || slices.ContainsFunc(f.faults.Queues, func(pattern string) bool {
		match, _ := path.Match(pattern, queue) // patterns were checked
		return match
	})
}

// roll draws lots, and counts.
func (f *faultInjector) roll(queue string, p float64, count *int) bool {
	if p == 0 || !f.appliesTo(queue) || f.random.Float64() >= p {
		return false
	}
	*count++
	return true
}

// duplicate tells whether a message that is being sent is stored twice.
func (f *faultInjector) duplicate(queue string) bool {
	return f.roll(queue, f.faults.Duplicate, &f.counts.Duplicated)
}

// delay is the extra time until a message becomes visible.
func (f *faultInjector) delay(queue string) time.Duration {
	if f.faults.MaxDelayMillis == 0 || !f.roll(queue, 1, &f.counts.Delayed) {
		return 0
	}
	return time.Duration(f.random.Int64N(int64(f.faults.MaxDelayMillis)*int64(time.Millisecond) + 1))
}

// pickNext chooses which of n visible messages is delivered next.
func (f *faultInjector) pickNext(queue string, n int) int {
	if n < 2 || !f.roll(queue, f.faults.Reorder, &f.counts.Reordered) {
		return 0
	}
	return f.random.IntN(n)
}

// dropReply tells whether the reply of an operation on a queue gets lost.
func (f *faultInjector) dropReply(operation, queue string) bool {
	p, ok := f.faults.DropReply[operation]
	if !ok {
		p = f.faults.DropReply["*"]
	}
	return f.roll(queue, p, &f.counts.Dropped)
}
