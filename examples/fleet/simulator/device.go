package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator/devicelog"
)

// State is what a device says about itself.
type State struct {
	ID           string            `json:"id"`
	Groups       []string          `json:"groups"`
	Version      string            `json:"version"`
	BootCount    int               `json:"bootCount"` // 1 when new
	Config       map[string]string `json:"config"`
	Touches      int               `json:"touches"`
	HighestFence string            `json:"highestFence"`
	Changes      int               `json:"changes"` // entries in the log
	Busy         bool              `json:"busy"`
	Behaviour    Behaviour         `json:"behaviour"`
}

// change is a request to a device, before the device has looked at it.
type change struct {
	operation devicelog.Operation
	version   string             // upgrade, rollback
	config    map[string]*string // configure; nil removes the key
	fence     string
	key       string
	invalid   string // why the body cannot be used; the attempt is logged all the same
	tooLarge  bool
}

// reply is what a device sends back, if anything.
type reply struct {
	status int
	drop   DropPoint
	body   any
}

// answer is the body of a change that succeeded, or claims so.
type answer struct {
	ID        string `json:"id"`
	Version   string `json:"version"`
	BootCount int    `json:"bootCount"`
	Touches   int    `json:"touches"`
	Repeat    bool   `json:"repeat"`
}

// problem is the body of every other answer.
type problem struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	HighestFence string `json:"highestFence,omitempty"`
}

// pending is an accepted change that waits for its turn or has it.
type pending struct {
	seq        int
	turn       chan struct{} // closed when it is this one's turn
	callerGone func() bool
}

type device struct {
	Device
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	off   <-chan struct{} // closed when the power goes

	mu        sync.Mutex
	journal   func(line) // nil without a state file and after a reset
	memory    memory
	log       []devicelog.Entry
	accepted  map[string]bool // idempotency keys
	queue     []*pending      // the first one has its turn
	behaviour Behaviour
}

// memory is the part of a device that outlives its process.
type memory struct {
	Version      string            `json:"version"`
	BootCount    int               `json:"bootCount"`
	Config       map[string]string `json:"config"`
	Touches      int               `json:"touches"`
	HighestFence string            `json:"highestFence"`
}

func (d *device) state() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return State{
		ID: d.ID, Groups: slices.Clone(d.Groups), Version: d.memory.Version, BootCount: d.memory.BootCount,
		Config: maps.Clone(d.memory.Config), Touches: d.memory.Touches, HighestFence: d.memory.HighestFence,
		Changes: len(d.log), Busy: len(d.queue) > 0, Behaviour: d.behaviour.clone(),
	}
}

func (d *device) entries() []devicelog.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]devicelog.Entry{}, d.log...)
}

func (d *device) misbehave(b Behaviour) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.behaviour = b.clone()
}

// perform leads one change through its life. The caller's context ends the
// wait for the turn only: what a device has begun, it ends.
func (d *device) perform(ctx context.Context, c change) reply {
	seq, mine, refusal := d.arrive(ctx, c)
	if mine == nil {
		return refusal
	}
	select {
	case <-mine.turn:
	case <-ctx.Done():
		return d.leave(seq, mine, devicelog.Abandoned, "the caller hung up before the change began")
	case <-d.off:
		return d.leave(seq, mine, devicelog.Interrupted, "the device lost power before the change began")
	}
	d.mu.Lock()
	pause := d.behaviour.takeSlow(c.operation)
	d.mu.Unlock()
	if pause > 0 {
		select {
		case <-d.after(pause):
		case <-d.off:
			return d.leave(seq, mine, devicelog.Interrupted, "the device lost power during the change")
		}
	}
	return d.make(seq, mine, c)
}

// arrive logs the change and decides whether it is accepted. It returns the
// place in the queue of an accepted change, else the refusal.
func (d *device) arrive(ctx context.Context, c change) (int, *pending, reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seq := len(d.log) + 1
	d.log = append(d.log, devicelog.Entry{
		Seq: seq, At: d.now(), Operation: c.operation, Requested: c.requested(),
		Fence: c.fence, Token: devicelog.LockToken(c.fence), IdempotencyKey: c.key,
		Outcome: devicelog.Running, From: d.memory.Version, To: d.memory.Version,
	})
	e := &d.log[seq-1]
	refuse := func(status int, code, message string) (int, *pending, reply) {
		e.Outcome, e.Code, e.Message, e.EndedAt = devicelog.Refused, code, message, d.now()
		d.record(*e)
		body := problem{Code: code, Message: message}
		if code == devicelog.CodeStaleFence {
			body.HighestFence = d.memory.HighestFence
		}
		return seq, nil, reply{status: status, body: body}
	}
	select {
	case <-d.off:
		return refuse(503, devicelog.CodeNoPower, "the device has no power")
	default:
	}
	switch {
	case c.fence == "":
		return refuse(400, devicelog.CodeFenceRequired, "a change needs the header X-Fence")
	case c.fence < d.memory.HighestFence:
		return refuse(409, devicelog.CodeStaleFence, fmt.Sprintf("fence %q is lower than %q", c.fence, d.memory.HighestFence))
	case c.key == "":
		return refuse(400, devicelog.CodeKeyRequired, "a change needs the header Idempotency-Key")
	case c.tooLarge:
		return refuse(413, devicelog.CodeTooLarge, c.invalid)
	case c.invalid != "":
		return refuse(400, devicelog.CodeInvalid, c.invalid)
	}
	// Seen is seen: a device that refuses for another reason below has still
	// learnt that somebody with this fence is at work.
	d.memory.HighestFence = c.fence
	if status := d.behaviour.takeRefuse(c.operation); status != 0 {
		return refuse(status, devicelog.CodeRefused, "the device refuses")
	}
	e.Accepted, e.Repeat = true, d.accepted[c.key]
	d.accepted[c.key] = true
	mine := &pending{seq: seq, turn: make(chan struct{}), callerGone: func() bool { return ctx.Err() != nil }}
	if last := len(d.queue) - 1; last >= 0 {
		e.Overlap, e.Overlaps, e.CallerGone = true, d.queue[last].seq, d.queue[last].callerGone()
	} else {
		close(mine.turn)
	}
	d.queue = append(d.queue, mine)
	d.record(*e)
	return seq, mine, reply{}
}

// make applies the change at the end of its turn, with the misbehaviour that
// is switched on at that moment.
func (d *device) make(seq int, mine *pending, c change) reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.log[seq-1]
	drop := d.behaviour.takeDrop(c.operation)
	e.From = d.memory.Version
	claimed := d.memory.Version
	if drop != DropBefore {
		e.Applied, e.Effective, claimed = d.apply(c)
	}
	e.To, e.EndedAt, e.Outcome = d.memory.Version, d.now(), devicelog.Answered
	if drop != "" {
		e.Outcome = devicelog.Dropped
	}
	d.record(*e)
	d.pass(mine)
	return reply{status: 200, drop: drop, body: answer{
		ID: d.ID, Version: claimed, BootCount: d.memory.BootCount, Touches: d.memory.Touches, Repeat: e.Repeat,
	}}
}

// apply alters the device. Claimed is the version it says it runs, which is
// not the truth if it keeps its version.
func (d *device) apply(c change) (applied, effective bool, claimed string) {
	switch c.operation {
	case devicelog.Upgrade, devicelog.Rollback:
		if d.memory.Version == c.version {
			return true, false, c.version
		}
		d.memory.BootCount++
		if d.behaviour.takeKeepVersion(c.operation) {
			return false, false, c.version
		}
		d.memory.Version = c.version
		return true, true, c.version
	case devicelog.Configure:
		for key, value := range c.config {
			former, set := d.memory.Config[key]
			switch {
			case value == nil && set:
				delete(d.memory.Config, key)
				effective = true
			case value != nil && (!set || former != *value):
				d.memory.Config[key] = *value
				effective = true
			}
		}
	case devicelog.Touch:
		d.memory.Touches++
		effective = true
	case devicelog.Read: // Changes nothing and does not come here.
	}
	return true, effective, d.memory.Version
}

// leave ends a change that was accepted but is not made.
func (d *device) leave(seq int, mine *pending, outcome devicelog.Outcome, message string) reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.log[seq-1]
	e.Outcome, e.Message, e.EndedAt = outcome, message, d.now()
	d.record(*e)
	d.pass(mine)
	return reply{status: 503, body: problem{Code: devicelog.CodeNoPower, Message: message}}
}

// pass takes a change out of the queue and gives the turn to the first one
// that is left, if it has not got it already.
func (d *device) pass(mine *pending) {
	first := d.queue[0] == mine
	d.queue = slices.DeleteFunc(d.queue, func(p *pending) bool { return p == mine })
	if first && len(d.queue) > 0 {
		close(d.queue[0].turn)
	}
}

// read is a pure call; it misbehaves only if reads are named.
func (d *device) read(ctx context.Context) reply {
	d.mu.Lock()
	status, pause := d.behaviour.takeRefuse(devicelog.Read), d.behaviour.takeSlow(devicelog.Read)
	d.mu.Unlock()
	if pause > 0 {
		select {
		case <-d.after(pause):
		case <-ctx.Done():
		case <-d.off:
		}
	}
	if status != 0 {
		return reply{status: status, body: problem{Code: devicelog.CodeRefused, Message: "the device refuses"}}
	}
	return reply{status: 200, body: d.state()}
}

func (d *device) record(e devicelog.Entry) {
	if d.journal != nil {
		d.journal(line{Device: d.ID, Entry: &e, Memory: &d.memory})
	}
}

func (c change) requested() string {
	if c.operation != devicelog.Configure || c.config == nil {
		return c.version
	}
	text, err := json.Marshal(c.config)
	if err != nil { // Strings and nulls always marshal.
		return err.Error()
	}
	return string(text)
}
